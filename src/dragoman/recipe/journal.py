"""What a run tells: `metrics.jsonl`, which is the truth, and trackers beside it, which may fail without harm."""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragoman.files import write_file

METRICS = "metrics.jsonl"

log = logging.getLogger(__name__)

Tracker = Callable[[int, str, float], None]
"""Takes (step, name, value)."""


class Journal:
    """Appends one JSON object a line; each step is there once, however often a run is resumed."""

    def __init__(self, folder: Path, step: int) -> None:
        """Opens the journal of a run that stands at `step`: lines of later steps, which will be run again, are dropped."""
        self.path = folder / METRICS
        kept = [line for line in read_metrics(folder) if line["step"] <= step]
        write_file(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = self.path.open("a", encoding="utf-8", newline="\n")
        self._trackers = _trackers(folder)

    def write(self, step: int, **facts: Any) -> None:
        self._file.write(json.dumps({"step": step, **facts}) + "\n")
        self._file.flush()
        for tracker in list(self._trackers):
            try:
                for name, value in facts.items():
                    if isinstance(value, int | float):
                        tracker(step, name, float(value))
            except Exception as error:
                log.warning("a tracker failed and is left out from here on: %s", error)
                self._trackers.remove(tracker)

    def secure(self) -> None:
        """Brings what is written to the disk: done before each checkpoint."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's journal; a last line cut by a power failure is left out."""
    try:
        lines = (folder / METRICS).read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return []
    metrics = []
    for line in lines:
        try:
            metrics.append(json.loads(line))
        except ValueError:
            continue
    return [line for line in metrics if isinstance(line, dict) and isinstance(line.get("step"), int)]


def _trackers(folder: Path) -> list[Tracker]:
    """TensorBoard, where it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return []
    writer = SummaryWriter(str(folder / "tensorboard"))
    return [lambda step, name, value: writer.add_scalar(name, value, step)]
