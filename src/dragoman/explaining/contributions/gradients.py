"""How a score would move with the vector of each token: gradients of every step.

A text of T steps is run as T prefixes side by side, so that a backward pass gives the gradients of many steps, and what
lies in the future of a step is not there at all. The vectors are those that enter the first layers: what the embedding
modules return, scaled, with positions where these are added.

Of gradients, the norm (Simonyan et al. 2014; in contrast, Yin and Neubig 2022) is the measure to use. Gradient times
input (Denil et al. 2014), its product with the vector, is the derivative by the length of that vector. A layer that
normalises its input hardly sees lengths, so in our models the product keeps little but noise: it finds the deciding
word a quarter as often. Erasure in contrast finds it most often of all (benchmarks/contributions.py).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.aligning.passes import Given, run_given
from dragoman.aligning.words import Word
from dragoman.explaining.contributions.portions import portions
from dragoman.model import EncoderDecoder, LanguageModel, Packing

Score = Callable[[Float[Tensor, "T V"], Int[Tensor, "T"]], Float[Tensor, "T K"]]
"""K numbers for each of T steps, from its logits and its place in the text."""


class Gradients(NamedTuple):
    """What K scores of T steps owe to P tokens: those of the source, then those that the decoder reads.

    Both are zero for the tokens that a step does not see.
    """

    norm: Float[Tensor, "K T P"]
    """The length of the gradient by the vector of the token: never below zero."""
    product: Float[Tensor, "K T P"]
    """Gradient times input, summed over features: above zero if a longer vector would raise the score."""


def gradients(
    model: EncoderDecoder | LanguageModel, given: Given, score: Score, steps: Sequence[int] | None = None
) -> Gradients:
    """The gradients of what `score` makes of each of these steps; of all, if none are named."""
    chosen = list(range(len(given.target)) if steps is None else steps)
    left = torch.tensor(chosen, device=model.output.device)
    parts = []
    for prefixes in portions([_prefix(given, step) for step in chosen]):
        named, left = left.split([len(prefixes), len(left) - len(prefixes)])
        parts.append(_of_last_steps(model, prefixes, lambda logits, named=named: score(logits, named)))
    width = len(given.source or []) + len(given.target)
    norms, products = (
        [nn.functional.pad(part, (0, width - part.size(-1))) for part in each] for each in zip(*parts, strict=True)
    )
    return Gradients(torch.cat(norms, 1), torch.cat(products, 1))


def log_prob_of(labels: Int[Tensor, "T"]) -> Score:
    """The log-probability of one token at each step."""
    return lambda logits, steps: logits.log_softmax(-1).gather(1, labels[steps, None])


def difference(chosen: Int[Tensor, "T"], instead: Int[Tensor, "T"]) -> Score:
    """Why this token rather than that one: the difference of their logits, which is that of their log-probabilities."""
    return lambda logits, steps: logits.gather(1, chosen[steps, None]) - logits.gather(1, instead[steps, None])


def side_by_side(*scores: Score) -> Score:
    """Several scores of the same steps; each costs a backward pass, and all share the pass forward."""
    return lambda logits, steps: torch.cat([score(logits, steps) for score in scores], dim=1)


def by_word(tokens: Float[Tensor, "*B P"], words: Sequence[Word], first: int = 0) -> Float[Tensor, "*B W"]:
    """The sums over the tokens of each word; token 0 of the words stands in column `first`."""
    sums = [tokens[..., first + word.first : first + word.last].sum(-1) for word in words]
    return torch.stack(sums, -1) if sums else tokens[..., :0]


def _prefix(given: Given, step: int) -> Given:
    return given._replace(target=given.target[: step + 1], labels=given.labels[: step + 1])


def _of_last_steps(
    model: EncoderDecoder | LanguageModel, texts: Sequence[Given], score: Callable[[Tensor], Tensor]
) -> Gradients:
    """The gradients at the last step of each text, whose sources have equal lengths."""
    with torch.inference_mode(False), torch.enable_grad(), _vectors(model) as vectors:
        hidden, packing = run_given(model, texts)
        scores = score(model.project(hidden[packing.lengths.cumsum(0) - 1]).float())
        found = [torch.autograd.grad(column.sum(), vectors, retain_graph=True) for column in scores.unbind(1)]
    sources = [] if texts[0].source is None else [Packing.even(len(texts), len(texts[0].source), hidden.device)]
    packings = [*sources, packing]
    norms = [_join([gradient.norm(dim=-1) for gradient in each], packings) for each in found]
    products = [
        _join([(gradient * x).sum(-1) for gradient, x in zip(each, vectors, strict=True)], packings) for each in found
    ]
    return Gradients(torch.stack(norms).detach(), torch.stack(products).detach())


@contextmanager
def _vectors(model: EncoderDecoder | LanguageModel) -> Iterator[list[Float[Tensor, "N D"]]]:
    """The token vectors of the pass within, as leaves of its graph, in the order of the pass: source, then target."""
    seen: list[Tensor] = []

    def cut(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        seen.append(output.detach().requires_grad_())
        return seen[-1]

    embeddings = [model.target_embedding]
    if isinstance(model, EncoderDecoder):
        embeddings.append(model.source_embedding)
    hooks = [embedding.register_forward_hook(cut) for embedding in embeddings]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _join(sides: Sequence[Float[Tensor, "N"]], packings: Sequence[Packing]) -> Float[Tensor, "T P"]:
    """One number a token to one row a text: its source, then its target and zeros."""
    return torch.cat([packing.pad(rows) for rows, packing in zip(sides, packings, strict=True)], dim=1)
