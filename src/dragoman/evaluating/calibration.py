"""Calibration: what a model's probabilities say about its translations, and what the flag `doubtful` catches."""

import math
from collections.abc import Sequence

import numpy as np

from dragoman.config import Settings
from dragoman.inference.translation import Translation

LEAST, GROUPS, WORST = 30, 5, 0.1
"""Least number of translations that are compared, the number of their groups, and the share that counts as worst."""


class Calibration(Settings):
    """Probabilities of a model, compared with references.

    Attributes:
        groups: groups of translations by the geometric mean of their tokens' probabilities: their number, the lowest
            and the highest mean, and their mean sentence chrF.
        flagged: number of translations that are flagged doubtful.
        worst, caught: number of the translations with the lowest chrF, and of those among them that are flagged.
    """

    groups: tuple[tuple[int, float, float, float], ...]
    flagged: int
    worst: int
    caught: int


def calibrate(translations: Sequence[Translation], quality: Sequence[float]) -> Calibration | None:
    """Compare probabilities with the `quality` of each translation, its chrF; None for too few translations."""
    rows = [(line, own) for line, own in zip(translations, quality, strict=True) if line.tokens]
    if len(rows) < LEAST:
        return None
    pairs = np.array([(math.exp(line.log_prob / len(line.tokens)), own) for line, own in rows])
    flagged = np.array(["doubtful" in line.flags for line, _ in rows])
    worst = np.argsort(pairs[:, 1], kind="stable")[: math.ceil(WORST * len(rows))]
    groups = np.array_split(pairs[np.argsort(pairs[:, 0], kind="stable")], GROUPS)
    return Calibration(
        groups=tuple((len(own), float(own[0, 0]), float(own[-1, 0]), float(own[:, 1].mean())) for own in groups),
        flagged=int(flagged.sum()),
        worst=len(worst),
        caught=int(flagged[worst].sum()),
    )
