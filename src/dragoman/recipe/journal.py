"""What a run tells: `metrics.jsonl`, which is the truth, and trackers beside it, which may fail without harm."""

import json
import logging
import math
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, Self, cast

from dragoman.errors import DiskFull
from dragoman.files import write_file

METRICS = "metrics.jsonl"

log = logging.getLogger(__name__)


class Tracker(Protocol):
    """What draws numbers over steps: TensorBoard's writer, or one like it."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int, /) -> None: ...

    def close(self) -> None: ...


class Journal:
    """Appends one JSON object a line; each step is there once, however often a run is resumed.

    Lines that the disk has no room for are kept, and written when it has. A number that is not finite is null: JSON has
    no other word for it.
    """

    def __init__(self, folder: Path, step: int) -> None:
        """Opens the journal of a run that stands at `step`: lines of later steps, which will be run again, are
        dropped.
        """
        self.path = folder / METRICS
        kept = [line for line in read_metrics(folder) if line["step"] <= step]
        write_file(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = self.path.open("ab", buffering=0)
        self._unwritten = b""
        self._trackers = _trackers(folder, step)

    def write(self, step: int, **facts: Any) -> None:
        facts = {name: None if _is_not_finite(value) else value for name, value in facts.items()}
        waiting = bool(self._unwritten)
        self._unwritten += (json.dumps({"step": step, **facts}) + "\n").encode()
        try:
            self._write_out()
        except DiskFull as error:
            if not waiting:
                log.warning("%s; its lines are kept until there is room", error)
        self._track(step, facts)

    def secure(self) -> None:
        """Brings what is written to the disk: before each checkpoint, lest that know of steps that this does not.

        Raises:
            DiskFull: some lines have no room yet.
        """
        self._write_out()
        with self._disk_errors():
            os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        for tracker in self._trackers:
            with suppress(Exception):
                tracker.close()

    def _write_out(self) -> None:
        with self._disk_errors():
            while self._unwritten:
                self._unwritten = self._unwritten[self._file.write(self._unwritten) :]

    @contextmanager
    def _disk_errors(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise DiskFull(f"{self.path} cannot be written ({error.strerror})") from error

    def _track(self, step: int, facts: Mapping[str, Any]) -> None:
        for tracker in list(self._trackers):
            try:
                for name, value in facts.items():
                    if isinstance(value, int | float):
                        tracker.add_scalar(name, float(value), step)
            except Exception as error:
                log.warning("a tracker failed and is left out from here on: %s", error)
                self._trackers.remove(tracker)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's journal; a last line cut by a power failure is left out."""
    try:
        lines = (folder / METRICS).read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return []
    metrics: list[dict[str, Any]] = []
    for line in lines:
        try:
            facts = cast("dict[str, Any]", json.loads(line))
            metrics.append({**facts, "step": int(facts["step"])})
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            continue
    return metrics


def _is_not_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _trackers(folder: Path, step: int) -> list[Tracker]:
    """TensorBoard, where it is installed; what it knows of steps after `step` is hidden."""
    try:
        from torch.utils.tensorboard import SummaryWriter

        writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
    except ImportError:
        return []
    except Exception as error:
        log.warning("TensorBoard cannot be used: %s", error)
        return []
    return [writer]
