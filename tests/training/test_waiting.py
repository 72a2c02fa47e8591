"""A step asks the device for no number, so that a GPU never waits for the host nor the host for a GPU.

Tensors on torch's meta device have shapes but no numbers: reading one raises, as does everything whose shape depends on
numbers (`nonzero`, a boolean mask as an index, `repeat_interleave` without `output_size`).
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, cast

import pytest
import torch
from small import (
    VOCABULARY,
    Source,
    batch_of,
    encoder_model,
    few_batches,
    fresh_state,
    language_model,
    random_batch,
    sentences,
    train_settings,
    translator,
)
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from dragoman.data.batching import Batch, BatchSize, LabelledBatch, pinned
from dragoman.data.bins import BinnedBatch, BinShape, in_bins
from dragoman.model.adapters import adapt
from dragoman.model.config import LoraSettings
from dragoman.model.dropout import StepKey
from dragoman.training.distributed import ALONE
from dragoman.training.loop import QueuedStep, Trainer, read_later
from dragoman.training.loss import Loss
from dragoman.training.masking import MaskedTokens
from dragoman.training.objective import CrossEntropy, Objective
from dragoman.training.prefetching import fetch

DROPOUT: dict[str, Any] = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}


def text_batches(words: bool) -> list[Any]:
    """Texts whose labels are of every second token, or of the texts."""
    found: list[Any] = []
    for lengths in ([3, 5, 2], [4, 1]):
        source, size = torch.cat(sentences(lengths)), torch.tensor(lengths)
        chosen = torch.arange(0, len(source), 2) if words else None
        labels = torch.zeros(len(lengths) if chosen is None else len(chosen), dtype=torch.int64)
        found.append(SizedTexts(source, size, chosen, labels, torch.arange(len(lengths))))
    return found


class SizedTexts(LabelledBatch):
    @property
    def size(self) -> BatchSize:
        return BatchSize(len(self.source), len(self.labels), int(self.source_lengths.max()), self.pairs)


def linked_batches() -> list[Batch]:
    return [replace(batch, links=torch.arange(batch.size.target_tokens) % 3 - 1) for batch in few_batches(2)]


def with_adapters() -> nn.Module:
    model = translator(dropout=0.1)
    adapt(model, LoraSettings(rank=3, dropout=0.1), seed=1)
    return model


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Objective], int]] = {
    "modern": (lambda: translator(**DROPOUT), lambda: CrossEntropy(Source(few_batches(2)), 0.1), 5),
    "paper, grouped keys": (
        lambda: translator(preset="paper", kv_heads=2, dropout=0.1, output_bias=True),
        lambda: CrossEntropy(Source(few_batches(2))),
        5,
    ),
    "learned positions": (
        lambda: translator(positions="learned", max_positions=50, dropout=0.0),
        lambda: CrossEntropy(Source([random_batch([4, 4], [4, 4])] * 2)),
        5,
    ),
    "alignment head": (
        lambda: translator(dropout=0.1, alignment_head=(0, 2)),
        lambda: CrossEntropy(Source(linked_batches()), alignment_weight=0.5),
        8,
    ),
    "adapters": (with_adapters, lambda: CrossEntropy(Source(few_batches(2))), 5),
    "language model": (
        lambda: language_model(**DROPOUT),
        lambda: CrossEntropy(Source([batch_of(None, sentences([3, 5]))] * 2)),
        3,
    ),
    "labelled words": (
        lambda: encoder_model(labels=3, dropout=0.1),
        lambda: CrossEntropy(Source(text_batches(words=True))),
        4,
    ),
    "labelled texts, mean": (
        lambda: encoder_model(labels=3, pooling="mean", dropout=0.1),
        lambda: CrossEntropy(Source(text_batches(words=False))),
        3,
    ),
    "labelled texts, first": (
        lambda: encoder_model(labels=3, pooling="first", dropout=0.1),
        lambda: CrossEntropy(Source(text_batches(words=False))),
        3,
    ),
    "masked words": (
        lambda: encoder_model(dropout=0.1),
        lambda: MaskedTokens(CrossEntropy(Source(text_batches(words=True))), VOCABULARY),
        4,
    ),
}
"""A model, what it minimises, and how many tensors a micro-batch brings to the device: ids, labels and lengths."""


class FromHost(TorchFunctionMode):
    """Collects the shapes of what is copied from the host to the meta device."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[tuple[int, ...]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [each for each in args if isinstance(each, Tensor)]
        of_numbers = func in (torch.tensor, torch.as_tensor, Tensor.new_tensor)
        of_host = of_numbers or any(each.dim() and not each.is_meta for each in tensors)
        if isinstance(result, Tensor) and result.is_meta and of_host:
            self.copies.append(tuple(result.shape))
        return result


@pytest.fixture(autouse=True)
def fused_optimisers_take_meta_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["torch.optim.adam"], "_device_dtype_check_for_fused", lambda *_, **__: None)


@pytest.mark.parametrize("settings", [{"precision": "bf16"}, {"optimiser": "muon"}], ids=["bf16", "muon"])
@pytest.mark.parametrize("case", CASES)
def test_a_step_asks_the_device_for_no_number(case: str, settings: dict[str, Any]) -> None:
    make_model, make_objective, parts = CASES[case]
    host, step = take_step(make_model(), make_objective(), settings)
    with pytest.raises(NotImplementedError, match="no data"):
        step.report()
    assert len(host.copies) == 2 * parts, "nothing but the two batches is copied from the host"


@pytest.mark.parametrize("settings", [{"precision": "bf16"}, {"optimiser": "muon"}], ids=["bf16", "muon"])
@pytest.mark.parametrize("case", ["paper, grouped keys", "learned positions", "alignment head", "adapters"])
def test_a_recorded_step_asks_the_device_for_no_number(
    case: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch._fused_adamw_", lambda *_, **__: None)  # it has no meta form for a rate in a tensor
    make_model, make_objective, _ = CASES[case]
    host, step = take_step(make_model(), make_objective(), settings, records=True)
    with pytest.raises(NotImplementedError, match="no data"):
        step.report()
    numbers = ["dropout and places", *(field.name for field in fields(BinnedBatch))]
    assert len(host.copies) == 2 * len(numbers), "nothing but two batches and numbers alone is copied from the host"


def take_step(
    model: nn.Module, objective: Objective, settings: dict[str, Any], records: bool = False
) -> tuple[FromHost, QueuedStep]:
    model, chosen = model.float().to("meta"), train_settings(accumulate=2, ema=0.5, **settings)
    state = fresh_state(model, chosen)
    trainer = Trainer(model, objective, chosen, state, records=records)
    micro_batches = fetch(trainer.batches, range(2), ALONE)
    trainer.step(micro_batches)  # the first one makes the state of the optimiser
    with FromHost() as host:
        return host, trainer.step(micro_batches)


WAITS: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "if": lambda x: bool((x > 0).all()),
    "tolist": lambda x: x.tolist(),
    "to the host": lambda x: x.cpu(),
    "nonzero": lambda x: x.nonzero(),
    "a boolean mask": lambda x: x[x > 0],
    "repeats of unknown length": lambda x: x.repeat_interleave(x[:, 0].long(), 0),
}


@dataclass(frozen=True)
class Spied(CrossEntropy):
    look: Callable[[Tensor], Any] = id

    def loss(self, model: nn.Module, batch: Any, dropout_key: StepKey) -> Loss:
        self.look(model.get_parameter("output"))
        return super().loss(model, batch, dropout_key)


@pytest.mark.parametrize("wait", WAITS)
def test_a_step_that_did_would_be_found(wait: str) -> None:
    with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        take_step(translator(), Spied(Source(few_batches(2)), look=WAITS[wait]), {})


def test_a_list_that_becomes_a_tensor_of_the_device_would_be_found() -> None:
    spied = Spied(Source(few_batches(2)), look=lambda x: torch.tensor([1, 2], device=x.device))
    host, _ = take_step(translator(), spied, {})
    assert len(host.copies) == 2 * (5 + 1)


def test_the_figures_of_a_gpus_step_are_copied_at_once_and_awaited_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Event:
        def record(self) -> None:
            done.append("recorded")

        def synchronize(self) -> None:
            done.append("awaited")

    class OnGpu:
        is_cuda = True

        def to(self, device: str, non_blocking: bool) -> Tensor:
            done.append(f"copied to {device}, {non_blocking=}")
            return torch.tensor([1.0, 2.0, 3.0])

    monkeypatch.setattr("torch.cuda.Event", Event)
    read = read_later(cast("Tensor", OnGpu()))
    assert done == ["copied to cpu, non_blocking=True", "recorded"]
    assert read() == [1.0, 2.0, 3.0] and done[2:] == ["awaited"]


@pytest.mark.parametrize(
    "batch",
    [
        *(*linked_batches(), *text_batches(words=True), *text_batches(words=False)),
        in_bins(few_batches(1)[0], BinShape(8, 256)),
    ],
)
def test_all_of_a_batch_is_pinned(batch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    locked: list[int] = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda part: locked.append(id(part)) or part.clone())
    copy = pinned(batch)
    parts = {name: part for name, part in vars(batch).items() if isinstance(part, Tensor)}
    assert sorted(locked) == sorted(map(id, parts.values()))
    assert type(copy) is type(batch) and all(torch.equal(getattr(copy, name), part) for name, part in parts.items())
