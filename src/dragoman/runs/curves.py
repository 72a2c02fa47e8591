# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (matplotlib's types are partial)
"""The losses and scores of a run over its steps: as numbers, as lines for a terminal, and as a picture, `curves.png`.

The picture needs matplotlib (extra `plots`).
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.run_folder import RunFolder
from dragoman.runs.metrics import read_metrics

SCORES = {
    "dev_bleu": "BLEU",
    "dev_chrf": "chrF",
    "dev_f1": "entity F1",
    "dev_accuracy": "accuracy",
    "dev_macro_f1": "macro F1",
    "dev_nats_per_character": "nats a character",
}
"""Metrics of validation, and how the picture names them; each task measures some of them."""

log = logging.getLogger(__name__)


def training_losses(run: RunFolder | Path, points: int) -> list[tuple[int, float]]:
    """Step and training loss (nats a target token, without smoothing), averaged over about `points` equal stretches."""
    lines = [line for line in read_metrics(run) if line.get("plain_loss") is not None]  # a skipped step has no loss
    size = max(1, len(lines) // max(1, points))
    parts = [lines[first : first + size] for first in range(0, len(lines), size)]
    return [(part[-1]["step"], sum(line["plain_loss"] for line in part) / len(part)) for part in parts]


def dev_curve(run: RunFolder | Path, metric: str) -> list[tuple[int, float]]:
    """Step and value of one metric, such as `dev_loss`, at each validation that measured it."""
    return [(line["step"], line[metric]) for line in read_metrics(run) if line.get(metric) is not None]


def curve_lines(run: RunFolder | Path, width: int = 60) -> list[str]:
    """The curves for a terminal: one line for the training loss, one for the score that chooses the best model."""
    losses = [loss for _, loss in training_losses(run, width)]
    lines: list[str] = []
    if losses:
        lines.append(f"training loss {plain_curve(losses, width)} {losses[0]:.2f} to {losses[-1]:.2f} nats a token")
    if chrf := [score for _, score in dev_curve(run, "dev_chrf")]:
        lines.append(f"dev chrF      {plain_curve(chrf, width)} {chrf[0]:.1f} to {chrf[-1]:.1f}")
    if nats := [score for _, score in dev_curve(run, "dev_nats_per_character")]:
        lines.append(f"dev loss      {plain_curve(nats, width)} {nats[0]:.2f} to {nats[-1]:.2f} nats a character")
    return lines


def draw_curves(run: RunFolder | Path) -> Path | None:
    """Draws losses and scores over steps into `curves.png`; None if matplotlib is not installed."""
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
    path = RunFolder(Path(run)).curves
    figure.savefig(path, dpi=120)
    return path


def plain_curve(values: Sequence[float], width: int = 60) -> str:
    """A curve as one line of blocks, for a terminal.

    >>> plain_curve([4.0, 2.0, 1.0, 0.5])
    '█▄▂▁'
    """
    if not values:
        return ""
    step = max(1, len(values) / width)
    picked = [values[int(i * step)] for i in range(min(width, len(values)))]
    low, high = min(picked), max(picked)
    blocks = "▁▂▃▄▅▆▇█"
    return "".join(blocks[round((value - low) / (high - low or 1) * 7)] for value in picked)


def _columns(rows: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [step for step, _ in rows], [value for _, value in rows]
