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

log = logging.getLogger(__name__)


def training_losses(run: RunFolder | Path, points: int) -> list[tuple[int, float]]:
    """Step and training loss (nats a target token, without smoothing), averaged over about `points` equal stretches."""
    lines = [line for line in read_metrics(run) if line.get("plain_loss") is not None]  # a skipped step has no loss
    size = max(1, len(lines) // max(1, points))
    parts = [lines[first : first + size] for first in range(0, len(lines), size)]
    return [(part[-1]["step"], sum(line["plain_loss"] for line in part) / len(part)) for part in parts]


def dev_scores(run: RunFolder | Path) -> list[tuple[int, float, float, float]]:
    """Step, loss, BLEU and chrF of each validation."""
    return [
        (line["step"], line["dev_loss"], line["dev_bleu"], line["dev_chrf"])
        for line in read_metrics(run)
        if all(line.get(name) is not None for name in ("dev_loss", "dev_bleu", "dev_chrf"))
    ]


def curve_lines(run: RunFolder | Path, width: int = 60) -> list[str]:
    """The curves for a terminal: one line for the training loss, one for the dev scores."""
    losses = [loss for _, loss in training_losses(run, width)]
    chrf = [score for *_, score in dev_scores(run)]
    lines: list[str] = []
    if losses:
        lines.append(f"training loss {plain_curve(losses, width)} {losses[0]:.2f} to {losses[-1]:.2f} nats a token")
    if chrf:
        lines.append(f"dev chrF      {plain_curve(chrf, width)} {chrf[0]:.1f} to {chrf[-1]:.1f}")
    return lines


def draw_curves(run: RunFolder | Path) -> Path | None:
    """Draws losses and scores over steps into `curves.png`; None if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure  # pyright: ignore
    except ImportError:
        return None
    losses, scores = training_losses(run, 200), dev_scores(run)
    figure: Any = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(*_columns(losses, 2), label="training")
    steps, dev_losses, bleu, chrf = _columns(scores, 4)
    left.plot(steps, dev_losses, "o-", label="dev")
    left.set(xlabel="step", ylabel="nats a target token")
    right.plot(steps, bleu, "o-", label="BLEU")
    right.plot(steps, chrf, "o-", label="chrF")
    right.set(xlabel="step", ylabel="dev score, greedy")
    for axes in (left, right):
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


def _columns(rows: Sequence[Sequence[float]], count: int) -> list[list[float]]:
    return [[row[i] for row in rows] for i in range(count)]
