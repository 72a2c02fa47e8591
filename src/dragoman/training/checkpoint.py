"""The state of a training run: `TrainState`, and its checkpoints on disk. A checkpoint is a model folder with two more
files:

    model.safetensors …      the float32 master weights, as in any model folder
    training.safetensors     the optimiser's moments, the average
    training.json            counts, identities (data, tokenizer, settings), envelope

Each checkpoint is written under a temporary name and renamed once it is complete; only then are the oldest deleted.
They too are renamed first, so a partial folder never has the name of a checkpoint. A damaged one is renamed with a
warning, and the run resumes from the previous one.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pydantic
import torch
from torch import Tensor, nn

from dragoman.config import Settings, read_json_as
from dragoman.errors import CheckpointError
from dragoman.files import discard, new_folder, set_aside
from dragoman.serialization import write_json
from dragoman.store.description import ADAPTER, WEIGHTS, ModelFiles, verify_model
from dragoman.store.manifest import write_manifest
from dragoman.store.saving import write_model
from dragoman.store.tensors import as_tensors
from dragoman.store.weights import read_weights, write_weights
from dragoman.training.optimiser import MasterWeights

log = logging.getLogger(__name__)


@dataclass
class TrainState:
    """The state of a run: weights, optimiser, and the counts that decide dropout and the order of the data."""

    masters: MasterWeights
    step: int = 0
    """Number of steps done."""
    epoch: int = 0
    """Epoch of the next batch, counted from 0."""
    batch: int = 0
    """Index of the next batch within its epoch."""
    tokens: int = 0
    """Number of source and target tokens seen."""
    skipped: int = 0
    """Number of steps whose gradient was not finite."""
    skipped_in_a_row: int = 0
    average: Tensor | None = None
    """Moving average of the weights that train, laid out like `masters.flat`; None if none is kept."""
    best_score: float | None = None
    """Highest score of a validation; None before the first."""
    best_step: int = 0
    """Step of the best model."""
    validations_since_best: int = 0

    def counts(self) -> dict[str, int | float | None]:
        """Return the plain numbers, for `training.json`."""
        return {name: value for name, value in vars(self).items() if name not in ("masters", "average")}

    def count(self, skipped: bool) -> None:
        """Count a step; `skipped` says that its gradient was not finite."""
        self.skipped += skipped
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if skipped else 0

    @torch.no_grad()
    def average_in(self, share: float) -> None:
        """Move the average towards the current weights, so that it remembers about this share of the steps so far.

        The memory of this exponential moving average grows with the run (Karras et al. 2024, section 3.1). It therefore
        suits runs of any length, and it forgets the first weights by itself.
        """
        if self.average is None:
            self.average = self.masters.flat.clone()
        else:
            self.average.lerp_(self.masters.flat, min(1.0, 1 / (share * self.step)))

    @property
    def averages(self) -> dict[str, Tensor]:
        """The average of each weight that trains; empty if none is kept."""
        return {} if self.average is None else self.masters.views(self.average)

    @property
    def weights(self) -> dict[str, Tensor]:
        """The weights to validate and to save: the average if there is one, else the masters."""
        return {name: weight.detach() for name, weight in self.masters.weights.items()} | self.averages


FORMAT = 2
"""Format number of `training.json`."""
STATE, FACTS = "training.safetensors", "training.json"
_KINDS = ("exp_avg", "exp_avg_sq", "momentum", "step", "average")
"""First part of a tensor's name in `training.safetensors`: the optimiser's state of a weight, or its average."""

Count = Annotated[int, pydantic.Field(ge=0)]


def save_checkpoint(
    folder: Path,
    state: TrainState,
    model: nn.Module,
    files: ModelFiles,
    identity: Mapping[str, Any],
    envelope: Mapping[str, Any],
    keep: int = 2,
) -> Path:
    """Write `folder/step-…`, then delete all but the newest `keep`. If the disk is full, older checkpoints stay."""
    path = folder / f"step-{state.step:08d}"
    if not path.exists():
        with new_folder(path) as aside:
            write_model(aside, model, files, state.masters.weights)
            average = {f"average.{name}": weight for name, weight in state.averages.items()}
            write_weights(aside / STATE, {**state.masters.state(), **average})
            facts = {"format": FORMAT, **state.counts(), "identity": dict(identity), "envelope": dict(envelope)}
            write_json(aside / FACTS, facts)
            write_manifest(aside)
    for old in list_checkpoints(folder)[:-keep]:
        discard(old)
    return path


def list_checkpoints(folder: Path) -> list[Path]:
    """List the complete checkpoint folders, oldest first. Their files are not verified."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir() and path.name.removeprefix("step-").isdigit())


def newest_checkpoint(folder: Path) -> Path | None:
    """Return the newest undamaged checkpoint; None if there was none, `CheckpointError` if all are damaged."""
    candidates = list_checkpoints(folder)
    for path in reversed(candidates):
        try:
            verify_model(path)
            read_checkpoint_facts(path)
            return path
        except CheckpointError as error:
            log.warning("%s; set aside as %s", error, set_aside(path).name)
    if candidates or any(folder.glob("step-*")):  # the latter: all were set aside before, so the run has begun
        raise CheckpointError(f"{folder} holds no undamaged checkpoint; start again with --fresh")
    return None


class CheckpointFacts(Settings):
    """The content of `training.json`: the counts of `TrainState`, and the values that a resumed run must match."""

    format: int
    step: Count
    epoch: Count
    batch: Count
    tokens: Count
    skipped: Count
    skipped_in_a_row: Count
    best_score: float | None
    best_step: Count
    validations_since_best: Count
    identity: dict[str, Any]
    """Data, tokenizer and settings."""
    envelope: dict[str, Any]
    """All other facts that decide the bits of a run (`system.envelope`)."""


def read_checkpoint_facts(path: Path) -> CheckpointFacts:
    """Read `training.json` of a checkpoint."""
    return read_json_as(path / FACTS, CheckpointFacts, FORMAT)


def restore(path: Path, state: TrainState) -> None:
    """Fill `state` from a checkpoint, as if training had never stopped; raise `CheckpointError` if it does not fit."""
    facts = read_checkpoint_facts(path)
    shapes = {name: tuple(weight.shape) for name, weight in state.masters.weights.items()}
    possible = {f"{kind}.{name}": () if kind == "step" else shapes[name] for kind in _KINDS for name in shapes}
    tensors = as_tensors(read_weights(path / STATE, possible, whole=False))
    moments = {name: tensor for name, tensor in tensors.items() if not name.startswith("average.")}
    weights = _weights(path, shapes, state)
    try:
        state.average = state.masters.join("average", tensors) if len(tensors) > len(moments) else None
        state.masters.restore(weights, moments)
    except KeyError as missing:
        raise CheckpointError(f"{path / STATE}: tensor {missing.args[0]} is missing") from None
    if unused := sorted(moments.keys() - state.masters.state().keys()):
        raise CheckpointError(f"{path / STATE}: tensor {unused[0]} does not belong to this optimiser")
    for name in state.counts():
        setattr(state, name, getattr(facts, name))


def _weights(path: Path, shapes: Mapping[str, tuple[int, ...]], state: TrainState) -> dict[str, Tensor]:
    """Return all weights of a checkpoint. That of an adapter holds only those that train; the base has the others."""
    if not (path / ADAPTER).is_file():
        return as_tensors(read_weights(path / WEIGHTS, shapes))
    trained = as_tensors(read_weights(path / ADAPTER, {name: shapes[name] for name in state.masters.trained}))
    return {**state.masters.weights, **trained}
