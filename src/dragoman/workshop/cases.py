"""Inputs on which the parts of the workshop are checked: calls of functions with named arguments.

Numbers are in float64 and follow from names alone, so ours and the reader's are the same. Dropout becomes a factor, so
that its place shows in the result.
"""

import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Calls = list[tuple[Callable[..., Any], dict[str, Any]]]
SOURCE = torch.tensor([[1, 5, 6, 7, 2], [1, 8, 2, 0, 0], [1, 9, 4, 2, 0]])
TARGET = torch.tensor([[1, 5, 9, 2, 0, 0], [1, 7, 3, 8, 4, 2], [1, 2, 0, 0, 0, 0]])
KEYS, BEFORE = (SOURCE != 0)[:, None, None], torch.ones(6, 6, dtype=torch.bool).tril()
MODEL = {"d_model": 8, "layers": 2, "heads": 2, "d_ff": 12, "dropout": 0.1}
DRAWN = {"source_words": 70, "target_words": 80, "d_model": 32, "layers": 1, "heads": 2, "d_ff": 40}
"""Sizes of which the deviations of usual first values differ clearly after rounding (`spread`)."""


def draw(**shapes: tuple[int, ...]) -> dict[str, Any]:
    """Draw a tensor for each name, from the name."""
    seeds = {name: torch.Generator().manual_seed(zlib.crc32(name.encode())) for name in shapes}
    return {name: torch.randn(*shapes[name], generator=seeds[name], dtype=torch.float64) for name in shapes}


def settle(module: nn.Module) -> nn.Module:
    """Give each weight a value that follows from its name, and make dropout a factor of one half."""
    for name, weight in module.named_parameters(remove_duplicate=False):
        weight.data = draw(**{name: tuple(weight.shape)})[name] / 2
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.forward = lambda input: input / 2
    return module


class Bigram(nn.Module):
    """A model whose logits follow from what is read. Row b ends at every (b + 2)th token."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.decoded = nn.Parameter(draw(table=(12, 12))["table"]), 0

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        return self.table[source].mean(1, keepdim=True), source != 0

    def decode(self, target: Tensor, memory: Tensor, visible: Tensor) -> Tensor:
        self.decoded += 1
        rows, columns, words = (torch.arange(n, device=target.device) for n in (*target.shape, 12))
        ends = columns % (rows[:, None] + 2) == rows[:, None] + 1
        return self.table[target].cumsum(1) + memory / 2 + 99 * ends[..., None] * (words == 2)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, *self.encode(source))


def until_end(target: Tensor) -> Tensor:
    """Replace the tokens after END by 0, because a search may write anything there."""
    return target.masked_fill((target == 2).cumsum(1) > (target == 2).int(), 0)


def cubes(p: Any) -> Calls:
    weights = draw(weights=(2, 3))["weights"]
    slopes = lambda change: p.finite_differences(lambda: (weights**3).sum(), weights, change)  # noqa: E731
    return [(slopes, {"change": 0.1}), (lambda: weights, {})]


def spread(name: str, weight: Tensor) -> str:
    """Describe the values of a matrix, roughly: their deviation, and whether some exceed Xavier's bound."""
    bound = (6 / sum(weight.shape)) ** 0.5
    deviation = bound * 2 ** ((2.5 * (weight.std() / bound).log2()).round().item() / 2.5)
    is_beyond = weight.abs().max() > 1.05 * bound
    return f"{name} with a deviation of about {deviation:.2g}{' and values beyond the bound' if is_beyond else ''}"


def first_values(p: Any) -> Calls:
    """Compare what is drawn; vectors must keep their values."""
    model = settle(p.Transformer(**DRAWN))
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    torch.manual_seed(1)
    p.initialise(model)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    return [
        (spread, {"name": name, "weight": weight})
        if weight.dim() > 1
        else (lambda weight, kept: weight == kept, {"weight": weight, "kept": before[name]})
        for name, weight in weights.items()
    ]


def steps(p: Any) -> Calls:
    model = Bigram()
    inputs = {"model": model, "optimiser": torch.optim.SGD(model.parameters(), lr=0.001)}
    inputs |= {"source": SOURCE[:, :4], "target": TARGET}
    return [
        call for rate in (10.0, 20.0) for call in ((p.train_step, inputs | {"rate": rate}), (model.table.detach, {}))
    ]


def search(p: Any, model: Any, longest: int) -> Calls:
    until = lambda model, source: until_end(p.greedy(model, source, longest))  # noqa: E731
    return [(until, {"model": model, "source": SOURCE}), (lambda: getattr(model, "decoded", 0), {})]


def whole(p: Any) -> Calls:
    torch.manual_seed(1)
    drawn = p.Transformer(**DRAWN)
    first = sorted(spread(name, weight.detach()) for name, weight in drawn.named_parameters() if weight.dim() > 1)
    model: Any = settle(p.Transformer(10, 11, **MODEL))
    memory = draw(memory=(3, 5, 8)) | {"memory_visible": KEYS}
    both = {"source": SOURCE, "target": TARGET}
    calls = [(model.encode, {"source": SOURCE}), (model.decode, {"target": TARGET[:, 1:], **memory}), (model, both)]
    return [*calls, (lambda: first, {})]


def together(p: Any) -> Calls:
    model = settle(p.Transformer(10, 11, **MODEL))
    return [(p.loss_of, {"model": model, "source": SOURCE, "target": TARGET}), *search(p, model, 7)]


def one_call(name: str, **inputs: Any) -> Callable[[Any], Calls]:
    return lambda p: [(getattr(p, name), inputs)]


NETWORK = draw(x=(4, 3), W1=(3, 5), W2=(5, 2), t=(4, 2))
LOGITS = draw(logits=(5, 7)) | {"labels": torch.tensor([3, 0, 6, 0, 2])}
ADAM = draw(weight=(4,), gradients=(6, 4)) | {"rate": 0.5, "eps": 0.1}
LONG, SQUARE = ({"query": (3, 2, 6, 4), "key": (3, 2, n, 4), "value": (3, 2, n, 4)} for n in (5, 6))
LAYER = draw(x=(3, 5, 8)) | {"visible": KEYS}
DECODER = draw(x=(3, 5, 8), memory=(3, 5, 8)) | {"visible": BEFORE[:5, :5], "memory_visible": KEYS}
CROSS = draw(x=(3, 6, 12), memory=(3, 5, 12)) | {"visible": KEYS}
SELF = draw(x=(3, 6, 12), memory=(3, 6, 12)) | {"visible": BEFORE}
NORM = draw(x=(2, 5, 6))["x"] / 100
NO_GRADIENT = torch.no_grad()
CASES: dict[str, Callable[[Any], Calls]] = {
    "network_gradients": lambda p: [(NO_GRADIENT(p.network_gradients), NETWORK)],
    "finite_differences": cubes,
    "logits_gradient": lambda p: [(NO_GRADIENT(p.logits_gradient), LOGITS | {"smoothing": s}) for s in (0.0, 0.1)],
    "positions": lambda p: [(p.positions, {"length": n, "d_model": d}) for n, d in ((6, 8), (3, 6))],
    "embed": lambda p: [(p.embed, {"table": settle(nn.Embedding(10, 8)), "ids": SOURCE})],
    "padding_mask": lambda p: [(p.padding_mask, {"ids": SOURCE, "pad": pad}) for pad in (0, 2)],
    "causal_mask": one_call("causal_mask", ids=SOURCE),
    "attend": lambda p: [
        (p.attend, draw(**LONG) | {"visible": KEYS}),
        (p.attend, draw(**SQUARE) | {"visible": BEFORE}),
    ],
    "split_heads": one_call("split_heads", **draw(x=(2, 5, 12)), heads=3),
    "join_heads": one_call("join_heads", **draw(x=(2, 3, 5, 4))),
    "Attention": lambda p: [(settle(p.Attention(12, 3)), inputs) for inputs in (SELF, CROSS)],
    "LayerNorm": lambda p: [(settle(p.LayerNorm(6)), {"x": x}) for x in (NORM, torch.ones_like(NORM))],
    "FeedForward": lambda p: [(settle(p.FeedForward(6, 10)), draw(x=(2, 5, 6)))],
    "Residual": lambda p: [(settle(p.Residual(6, 0.1)), draw(x=(2, 5, 6)) | {"sublayer": lambda x: x.sin() * 2})],
    "EncoderLayer": lambda p: [(settle(p.EncoderLayer(8, 2, 12, 0.1)), LAYER)],
    "DecoderLayer": lambda p: [(settle(p.DecoderLayer(8, 2, 12, 0.1)), DECODER)],
    "initialise": first_values,
    "Transformer": whole,
    "smoothed_loss": lambda p: [(p.smoothed_loss, LOGITS | extra) for extra in ({}, {"smoothing": 0.3})],
    "loss_of": lambda p: [(p.loss_of, {"model": Bigram(), "source": SOURCE, "target": TARGET})],
    "learning_rate": lambda p: [
        (p.learning_rate, {"step": n, "d_model": 64, "warmup_steps": 100}) for n in (1, 2, 50, 100, 5_000)
    ],
    "adam": lambda p: [(NO_GRADIENT(p.adam), ADAM)],
    "train_step": steps,
    "greedy": lambda p: [call for longest in (30, 4) for call in search(p, Bigram(), longest)],
    "together": together,
}
"""The calls of each part, given the names that a file defines; `together` has all parts of the reader's own."""
