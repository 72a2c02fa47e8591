"""A run's state on disk: a model folder, and beside it what a resumed run needs.

    model.safetensors …      the float32 master weights, as in any model folder
    training.safetensors     the optimiser's moments, the average
    training.json            counts, identities (data, tokenizer, settings), envelope

Each is written aside and renamed once. The oldest are deleted only after, and are renamed first, so that no half of one
ever stands under its name. A damaged one is set aside, loudly, and the one before it is taken.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pydantic
from torch import nn

from dragoman.config import Settings
from dragoman.documents import read_document, write_json
from dragoman.errors import CheckpointError
from dragoman.files import new_folder, remove, set_aside
from dragoman.manifest import write_manifest
from dragoman.store import WEIGHTS, ModelFiles, read_weights, verify_model, write_model, write_weights
from dragoman.training.state import TrainState

FORMAT = 2
STATE, FACTS = "training.safetensors", "training.json"
_KINDS = ("exp_avg", "exp_avg_sq", "momentum", "step", "average")
"""The first part of a tensor's name in `training.safetensors`: what optimisers keep of a weight, and its average."""

Count = Annotated[int, pydantic.Field(ge=0)]

log = logging.getLogger(__name__)


def save_checkpoint(
    folder: Path,
    state: TrainState,
    model: nn.Module,
    files: ModelFiles,
    identity: Mapping[str, Any],
    envelope: Mapping[str, Any],
    keep: int = 2,
) -> Path:
    """Writes `folder/step-…`, then deletes all but the newest `keep`.

    Raises:
        DiskFull: nothing was written, and what was there stays.
    """
    path = folder / f"step-{state.step:08d}"
    if not path.exists():
        with new_folder(path) as aside:
            write_model(aside, model, files, state.masters.weights)
            average = {f"average.{name}": weight for name, weight in state.average.items()}
            write_weights(aside / STATE, {**state.masters.state(), **average})
            facts = {"format": FORMAT, **state.counts(), "identity": dict(identity), "envelope": dict(envelope)}
            write_json(aside / FACTS, facts)
            write_manifest(aside)
    for old in list_checkpoints(folder)[:-keep]:
        _delete(old)
    return path


def _delete(checkpoint: Path) -> None:
    """Deletes a checkpoint that is whole until it is gone; what a kill leaves of it, `remove_partial` clears."""
    aside = checkpoint.with_name(f".{checkpoint.name}.{os.getpid()}.partial")
    remove(aside)
    os.replace(checkpoint, aside)
    remove(aside)


def list_checkpoints(folder: Path) -> list[Path]:
    """Whole checkpoint folders, oldest first, unverified."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir() and path.name.removeprefix("step-").isdigit())


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that is undamaged; damaged ones are renamed. None where none was ever written.

    Raises:
        CheckpointError: there are checkpoints, and not one is whole.
    """
    candidates = list_checkpoints(folder)
    for path in reversed(candidates):
        try:
            verify_model(path)
            read_facts(path)
            return path
        except CheckpointError as error:
            log.warning("%s; set aside as %s", error, set_aside(path).name)
    if candidates or any(folder.glob("step-*")):  # or all were set aside before: the run is not one that never began
        raise CheckpointError(f"{folder} holds no undamaged checkpoint; start again with --fresh")
    return None


class CheckpointFacts(Settings):
    """What `training.json` says: the counts of `TrainState`, and what a resumed run compares with itself."""

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
    """Whatever else the bits of a run depend on."""


def read_facts(path: Path) -> CheckpointFacts:
    """`training.json` of a checkpoint, of this format or brought to it.

    Raises:
        CheckpointError: it is missing, damaged or newer.
    """
    return read_document(path / FACTS, CheckpointFacts, FORMAT, upgrades={1: from_1_to_2})


def from_1_to_2(facts: dict[str, Any]) -> dict[str, Any]:
    """Format 2 keys dropout by the names of its sites; format 1 numbered them."""
    return {**facts, "format": 2, "envelope": {**facts["envelope"], "dropout sites": "by number"}}


def restore(path: Path, state: TrainState) -> None:
    """Fills `state` from a checkpoint, so that training goes on as if it had never stopped."""
    facts = read_facts(path)
    shapes = {name: tuple(weight.shape) for name, weight in state.masters.weights.items()}
    possible = {f"{kind}.{name}": () if kind == "step" else shapes[name] for kind in _KINDS for name in shapes}
    tensors = read_weights(path / STATE, possible, whole=False)
    state.average = {
        name: tensors[f"average.{name}"].to(weight.device)
        for name, weight in state.masters.weights.items()
        if f"average.{name}" in tensors
    }
    moments = {name: tensor for name, tensor in tensors.items() if not name.startswith("average.")}
    weights = read_weights(path / WEIGHTS, shapes)
    try:
        state.masters.restore(weights, moments)
    except KeyError as missing:
        raise CheckpointError(f"{path / STATE}: tensor {missing.args[0]} is missing") from None
    if unused := sorted(moments.keys() - state.masters.state().keys()):
        raise CheckpointError(f"{path / STATE}: tensor {unused[0]} does not belong to this optimiser")
    for name in TrainState.COUNTS:
        setattr(state, name, getattr(facts, name))
