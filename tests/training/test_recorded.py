"""A step in bins, whose changing numbers are tensors, is the ordinary step: what a GPU records, computed here."""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from closeness import assert_close
from small import Source, fresh_state, language_model, random_batch, train_settings, translator
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dragoman.compiled import fusing
from dragoman.data import bins
from dragoman.data.batching import Batch
from dragoman.data.bins import BinnedBatch
from dragoman.model.adapters import adapt
from dragoman.model.config import LoraSettings
from dragoman.model.transformer import EncoderDecoder
from dragoman.training.distributed import ALONE
from dragoman.training.loop import StepReport, Trainer
from dragoman.training.objective import CrossEntropy
from dragoman.training.prefetching import fetch

AFTER_STEPS = 1e-9
"""As `closeness.ROUNDING`, after four steps: Adam divides small gradients by as small roots, and their rounding with
them.
"""
LENGTHS = [([3, 5, 2, 7, 1], [4, 1, 6, 3, 2]), ([9, 2, 4], [7, 8, 1]), ([1, 1, 1, 6, 6, 6], [6, 6, 6, 1, 1, 1])]


def batches() -> list[Batch]:
    """Return batches with links of about a third of the tokens."""
    linked = []
    for seed, lengths in enumerate(LENGTHS):
        batch, random = random_batch(*lengths, seed), torch.Generator().manual_seed(seed)
        limits = torch.repeat_interleave(batch.source_lengths, batch.target_lengths)  # pyright: ignore
        links = (torch.rand(len(limits), generator=random) * limits * 3).long() - 2 * limits
        linked.append(replace(batch, links=links.clamp(min=-1)))
    return linked


def with_adapters() -> nn.Module:
    model = translator(dropout=0.2)
    adapt(model, LoraSettings(rank=3, dropout=0.1), seed=1)
    return model


MODELS: dict[str, Any] = {
    "modern": lambda: translator(dropout=0.2, activation_dropout=0.1),
    "paper": lambda: translator(preset="paper", kv_heads=2, dropout=0.2, output_bias=True),
    "learned positions": lambda: translator(positions="learned", max_positions=12, dropout=0.2),
    "alignment head": lambda: translator(dropout=0.1, alignment_head=(0, 2)),
    "gates": lambda: translator(activation="swiglu", dropout=0.1),
    "adapters": with_adapters,
}


def objective_of(model: nn.Module, source: Source) -> CrossEntropy:
    learns_alignments = isinstance(model, EncoderDecoder) and model.config.alignment_head
    return CrossEntropy(source, 0.1, 0.3 if learns_alignments else 0.0)


def trained(
    model: nn.Module, records: bool, source: Any = None, **settings: Any
) -> tuple[dict[str, Tensor], list[StepReport]]:
    """Return the weights after four steps, without the biases of keys: their gradient is zero but for rounding."""
    chosen = train_settings(steps=4, **settings)
    state, reports = fresh_state(model, chosen), list[StepReport]()
    objective = objective_of(model, source or Source(batches()))
    Trainer(model, objective, chosen, state, log=reports.append, records=records).run()
    weights = {name: weight for name, weight in state.weights.items() if not name.endswith("key.bias")}
    return weights, reports


@pytest.fixture
def short_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bins, "_SHORTEST", 12)
    monkeypatch.setattr(bins, "_MULTIPLE", 12)


@pytest.mark.usefixtures("short_bins")
@pytest.mark.parametrize(
    "settings", [{}, {"accumulate": 2, "ema": 0.5}, {"optimiser": "muon"}], ids=["", "cut", "muon"]
)
@pytest.mark.parametrize("name", MODELS)
def test_a_recorded_step_is_the_ordinary_step(name: str, settings: dict[str, Any]) -> None:
    weights, reports = trained(MODELS[name](), records=False, **settings)
    recorded, recorded_reports = trained(MODELS[name](), records=True, **settings)
    assert_close(recorded, weights, AFTER_STEPS)
    for plain, ours in zip(reports, recorded_reports, strict=True):
        assert plain.loss == pytest.approx(ours.loss, rel=1e-9) and plain.norm == pytest.approx(ours.norm, rel=1e-9)
        assert (plain.tokens, plain.step) == (ours.tokens, ours.step)


class Calls(TorchDispatchMode):
    """Lists the operations, with the shapes of their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        shapes = [tuple(x.shape) for x in tree_leaves((args, kwargs or {})) if isinstance(x, Tensor)]
        self.seen.append((func, shapes))
        return func(*args, **(kwargs or {}))


@pytest.mark.usefixtures("short_bins")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_every_recorded_step_is_the_same_operations_on_the_same_shapes(name: str, optimiser: str) -> None:
    model, chosen = MODELS[name](), train_settings(optimiser=optimiser)
    state, steps = fresh_state(model, chosen), list[list[Any]]()
    trainer = Trainer(model, objective_of(model, Source(batches())), chosen, state, records=True)
    for number in range(3):
        part = fetch(trainer.batches, [number], ALONE)
        assert isinstance(part[0].batch, BinnedBatch)
        with Calls() as calls:
            trainer.step(part)
        steps.append(calls.seen)
    assert steps[1] == steps[2] and len(steps[1]) > 100


def test_a_batch_that_does_not_fit_is_computed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bins of 256 tokens hold all batches but the last, which needs more than the others."""
    monkeypatch.setattr(bins, "_FIT", 0.5)
    many = [random_batch([9] * 20, [9] * 20, seed) for seed in range(3)] + [random_batch([9] * 90, [9] * 90)]
    trainer = Trainer(
        translator(),
        CrossEntropy(Source(many)),
        train_settings(),
        fresh_state(translator(), train_settings()),
        records=True,
    )
    kinds = [type(trainer.batches.batch(number)) for number in range(4)]
    assert kinds == [BinnedBatch] * 3 + [Batch]
    weights, _ = trained(translator(dropout=0.2), records=False, source=Source(many))
    recorded, _ = trained(translator(dropout=0.2), records=True, source=Source(many))
    assert_close(recorded, weights, AFTER_STEPS)


@pytest.mark.parametrize("model", [translator(attention_dropout=0.1), language_model()])
def test_what_would_not_be_the_same_in_bins_is_not_packed(model: nn.Module) -> None:
    chosen, source = train_settings(), Source(batches())
    trainer = Trainer(model, CrossEntropy(source), chosen, fresh_state(model, chosen), records=True)
    assert trainer.batches is source


@pytest.mark.thorough
@pytest.mark.usefixtures("short_bins")
@pytest.mark.parametrize("name", ["gates", "paper"])
def test_fused_functions_are_the_same_functions(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled for the processor, as a GPU's are; each function few times, for its shapes with and without a sum."""
    if "CHECK_SHAPES" in os.environ:  # torch cannot compile functions that check shapes
        plain_environment = {key: value for key, value in os.environ.items() if key != "CHECK_SHAPES"}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            "-m",
            "thorough",
            f"{__file__}::{request.node.name}",
        ]
        done = subprocess.run(command, env=plain_environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        return
    plain, _ = trained(MODELS[name](), records=True)
    monkeypatch.setattr(fusing, "FUSED_ON", {"cpu"})
    before = counters["stats"]["unique_graphs"]
    fused, _ = trained(MODELS[name](), records=True)
    assert not fusing._Fusing.failed and 0 < counters["stats"]["unique_graphs"] - before < 20
    assert_close(fused, plain, 1e-6)
