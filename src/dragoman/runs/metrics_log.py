"""The metrics of a run (`metrics.jsonl`), written, read and drawn; matplotlib, an extra, draws `curves.png`."""

import json
import logging
import math
import os
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from dragoman.errors import DiskFull
from dragoman.files import read_regular, write_file
from dragoman.run_folder import RunFolder

log = logging.getLogger(__name__)

CURVE_WIDTH = 60
"""Width of a curve on a terminal, in characters."""


class MetricsLog:
    """A log that appends a line of JSON for each step and each validation. A step is there once, however often the run
    resumes.

    If the disk is full, lines are kept in memory and written when there is room again. A number that is not finite
    becomes null, because JSON cannot express it.
    """

    def __init__(self, run: RunFolder | Path, step: int) -> None:
        """Take the metrics of a run that resumes at `step`; entering opens them."""
        self._run, self._step = RunFolder(run), step
        self.path = self._run.metrics
        self._unwritten = b""
        self._open = ExitStack()
        self._trackers: list[Any] = []

    def __enter__(self) -> Self:
        """Drop the lines of later steps, which will run again."""
        kept = [line for line in read_metrics(self._run) if line["step"] <= self._step]
        write_file(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = self._open.enter_context(self.path.open("ab", buffering=0))
        self._open.enter_context(_silence_tensorboard())
        self._trackers = _trackers(self._run, self._step)
        return self

    def write(self, step: int, **facts: Any) -> None:
        """Append a line, and pass its numbers to the trackers. A full disk is only a warning."""
        for name, value in facts.items():
            if isinstance(value, float) and not math.isfinite(value):
                facts[name] = None
        waiting = bool(self._unwritten)
        self._unwritten += (json.dumps({"step": step, **facts}) + "\n").encode()
        try:
            self._write_out()
        except DiskFull as error:
            if not waiting:
                log.warning("%s; its lines are kept until there is room", error)
        self._track(step, facts)

    def secure(self) -> None:
        """Flush the metrics to the disk, before each checkpoint, so that none has later steps than they."""
        self._write_out()
        with self._disk_errors():
            os.fsync(self._file.fileno())

    def __exit__(self, *_: object) -> None:
        with self._open:
            for tracker in self._trackers:
                try:
                    tracker.close()
                except Exception as error:
                    log.warning("a tracker failed, and its last numbers may be missing: %s", error)

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
                log.warning("a tracker failed and is not used any more: %s", error)
                self._trackers.remove(tracker)


def read_metrics(run: RunFolder | Path) -> list[dict[str, Any]]:
    """Return the lines of a run's metrics, in order. The last one is left out if a kill or a power failure cut it."""
    try:
        lines = read_regular(RunFolder(run).metrics).decode(errors="replace").split("\n")
    except FileNotFoundError:
        return []
    metrics: list[dict[str, Any]] = []
    for line in lines:
        with suppress(ValueError):
            metrics.append(json.loads(line))
    return metrics


@contextmanager
def _silence_tensorboard() -> Generator[None]:
    """Suppress the traceback of an error in TensorBoard's writing thread. TensorBoard raises the error again when the
    next number is added or the writer is closed, and one line reports it then.
    """
    loud = threading.excepthook

    def hook(args: threading.ExceptHookArgs, /) -> None:
        if not type(args.thread).__module__.startswith("tensorboard."):
            loud(args)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = loud


def _trackers(run: RunFolder, step: int) -> list[Any]:
    """Return a writer of TensorBoard, if it is installed. It hides what it has recorded of steps after `step`."""
    try:
        from torch.utils.tensorboard import SummaryWriter

        writer: Any = SummaryWriter(str(run.tensorboard), purge_step=step + 1)
    except ImportError:
        return []
    except Exception as error:
        log.warning("TensorBoard cannot be used: %s", error)
        return []
    return [writer]


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (matplotlib's types are partial)


SCORES = {
    "dev_bleu": "BLEU",
    "dev_chrf": "chrF",
    "dev_f1": "entity F1",
    "dev_accuracy": "accuracy",
    "dev_macro_f1": "macro F1",
    "dev_nats_per_character": "nats a character",
}
"""Metrics of validation, with their names in the picture; each task measures some of them."""


def training_losses(run: RunFolder | Path, points: int) -> list[tuple[int, float]]:
    """Return step and training loss (nats a target token, unsmoothed), averaged over about `points` stretches."""
    lines = [line for line in read_metrics(run) if line.get("plain_loss") is not None]  # a skipped step has no loss
    size = max(1, len(lines) // max(1, points))
    parts = [lines[first : first + size] for first in range(0, len(lines), size)]
    return [(part[-1]["step"], sum(line["plain_loss"] for line in part) / len(part)) for part in parts]


def dev_curve(run: RunFolder | Path, metric: str) -> list[tuple[int, float]]:
    """Return step and value of one metric, such as `dev_loss`, at each validation that measured it."""
    return [(line["step"], line[metric]) for line in read_metrics(run) if line.get(metric) is not None]


def curve_lines(run: RunFolder | Path) -> list[str]:
    """Return the curves for a terminal: the training loss, and the score that chooses the best model."""
    losses = [loss for _, loss in training_losses(run, CURVE_WIDTH)]
    lines: list[str] = []
    if losses:
        lines.append(f"training loss {plain_curve(losses)} {losses[0]:.2f} to {losses[-1]:.2f} nats a token")
    if chrf := [score for _, score in dev_curve(run, "dev_chrf")]:
        lines.append(f"held-out chrF {plain_curve(chrf)} {chrf[0]:.1f} to {chrf[-1]:.1f}")
    if nats := [score for _, score in dev_curve(run, "dev_nats_per_character")]:
        lines.append(f"held-out loss {plain_curve(nats)} {nats[0]:.2f} to {nats[-1]:.2f} nats a character")
    return lines


def draw_curves(run: RunFolder | Path) -> Path | None:
    """Draw losses and scores over steps into `curves.png`; return None if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure  # pyright: ignore
    except ImportError:
        return None
    figure: Any = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(*_columns(training_losses(run, 200)), label="training")
    left.plot(*_columns(dev_curve(run, "dev_loss")), "o-", label="dev")
    left.set(xlabel="step", ylabel="nats a token or label")
    for metric, label in SCORES.items():
        if curve := dev_curve(run, metric):
            right.plot(*_columns(curve), "o-", label=label)
    right.set(xlabel="step", ylabel="dev score")
    for axes in (left, right):
        if axes.lines:
            axes.legend()
        axes.grid(alpha=0.3)
    path = RunFolder(run).curves
    figure.savefig(path, dpi=120)
    return path


def plain_curve(values: Sequence[float]) -> str:
    """Return a curve as one line of blocks, for a terminal.

    >>> plain_curve([4.0, 2.0, 1.0, 0.5])
    '█▄▂▁'
    """
    if not values:
        return ""
    step = max(1, len(values) / CURVE_WIDTH)
    picked = [values[int(i * step)] for i in range(min(CURVE_WIDTH, len(values)))]
    low, high = min(picked), max(picked)
    blocks = "▁▂▃▄▅▆▇█"
    return "".join(blocks[round((value - low) / (high - low or 1) * 7)] for value in picked)


def _columns(rows: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [step for step, _ in rows], [value for _, value in rows]
