"""A run's state on disk: a model folder, and beside it what going on needs.

    model.safetensors …      the float32 masters, as in any model folder
    training.safetensors     the optimiser's moments, the average
    training.json            counts, identities (data, tokenizer, settings), envelope

Each is written aside and renamed once. The oldest are deleted only after, and are renamed first, so that no half of one
ever stands under its name. A damaged one is set aside, loudly, and the one before it is taken.
"""

import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from dragoman.config import Settings
from dragoman.documents import read_document, write_json
from dragoman.errors import CheckpointError
from dragoman.files import new_folder, remove, set_aside
from dragoman.manifest import write_manifest
from dragoman.store import WEIGHTS, ModelFiles, read_weights, verify_model, write_model, write_weights
from dragoman.training.state import TrainState

FORMAT = 1
STATE, FACTS = "training.safetensors", "training.json"
_KINDS = ("exp_avg", "exp_avg_sq", "momentum", "step", "average")
"""What stands in `training.safetensors` for a weight, before its name: what optimisers keep of it, and its average."""

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


class _Facts(Settings, extra="allow"):
    format: int


def read_facts(path: Path) -> dict[str, Any]:
    """`training.json` of a checkpoint."""
    facts = read_document(path / FACTS, _Facts, FORMAT).model_dump()
    if missing := [name for name in (*TrainState.COUNTS, "identity", "envelope") if name not in facts]:
        raise CheckpointError(f"{path / FACTS} lacks {missing[0]}")
    if wrong := [name for name, value in facts.items() if not _is_sound(name, value)]:
        raise CheckpointError(f"{path / FACTS} is damaged: {wrong[0]} cannot be {str(facts[wrong[0]])[:100]!r}")
    return facts


def _is_sound(name: str, value: object) -> bool:
    if name in ("identity", "envelope"):
        return isinstance(value, dict)
    if name == "best_score":
        return value is None or (isinstance(value, float) and math.isfinite(value))
    return name not in TrainState.COUNTS or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


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
        setattr(state, name, facts[name])
