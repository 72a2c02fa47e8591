"""The options with which a run is asked for, and the context that all its parts share."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

from dragoman.progress import Progress
from dragoman.run_folder import RunFolder
from dragoman.training.distributed import ALONE, World


class RunOptions(TypedDict, total=False):
    """The options of `train`, which functions that call it pass on."""

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
    """Where a run lies, its device and processes, and how it reports progress."""

    run: RunFolder
    device: str
    anyway: bool
    """Whether the run goes on although its machine or its data have changed."""
    progress: Progress
    world: World = ALONE
