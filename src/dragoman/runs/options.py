"""How a run is asked for: the options of `train`, said once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.progress import Progress, silent


@dataclass(frozen=True)
class RunOptions:
    """The options of `train` and of the functions that call it, from the command line to the session."""

    overrides: Sequence[str] = ()
    """Settings, as `dotted.key=value`."""
    name: str | None = None
    """Of the run; without one, it is named after its recipe or data."""
    runs: Path | str = "runs"
    """The folder that holds the runs."""
    fresh: bool = False
    """Whether to begin a run under a new name, if there is one of this name."""
    more: bool = False
    """Whether to train a finished run further."""
    anyway: bool = False
    """Whether to go on although the machine or the data have changed."""
    device: str = "auto"
    threads: int | None = None
    progress: Progress = silent
