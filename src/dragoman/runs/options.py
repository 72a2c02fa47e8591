"""How a run is asked for, and what all parts of its making share."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

from dragoman.progress import Progress
from dragoman.run_folder import RunFolder
from dragoman.training.distributed import ALONE, World


class RunOptions(TypedDict, total=False):
    """The options of `train`; functions that call it hand them on."""

    overrides: Sequence[str]
    name: str | None
    runs: Path | str
    fresh: bool
    more: bool
    anyway: bool
    device: str
    threads: int | None
    progress: Progress


class RunContext(NamedTuple):
    """Where a run is made, on which device, by which processes, and to whom it reports."""

    run: RunFolder
    device: str
    anyway: bool
    """Whether the run goes on although something under it has changed."""
    progress: Progress
    world: World = ALONE
