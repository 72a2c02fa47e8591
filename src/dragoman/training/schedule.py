"""The learning rate as a pure function of the step: nothing to save, nothing to restore."""

import math
from typing import Literal

Schedule = Literal["noam", "linear", "cosine", "constant", "wsd"]
"""How the learning rate falls after the warm-up (see `learning_rate`)."""

DECAY_SHARE = 0.2
"""Share of the steps after the warm-up in which the rate of `wsd` falls."""
ENDLESS = frozenset({"noam", "constant"})
"""Schedules whose rate does not depend on the number of steps."""


def learning_rate(
    schedule: Schedule, step: int, peak: float, warmup_steps: int, steps: int, continued_from: int = 0
) -> float:
    """The learning rate at `step` (the first is 1): a linear rise to `peak` over `warmup_steps`, then

    `noam`      peak * sqrt(warmup_steps / step)      (Vaswani et al. 2017, eq. 3, whose peak is `noam_peak`)
    `linear`    down to zero at the last of `steps`
    `cosine`    half a cosine down to zero (Loshchilov and Hutter 2017)
    `constant`  peak
    `wsd`       warm-up, stable, decay: peak, then down to zero over the last fifth (Hu et al. 2024)

    If a run that finished at step `continued_from` is trained further, the rate rises and falls again over the new
    steps. The rate of `noam` and `constant` has no end, so it goes on as if the run had not finished.

    >>> [round(learning_rate("linear", step, 1.0, 2, 6), 2) for step in (1, 2, 4, 6)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if schedule not in ENDLESS:
        step, steps = step - continued_from, steps - continued_from
    if step <= warmup_steps:
        return peak * step / warmup_steps
    done = (step - warmup_steps) / max(1, steps - warmup_steps)
    match schedule:
        case "noam":
            return peak * math.sqrt(max(1, warmup_steps) / step)
        case "linear":
            return peak * max(0.0, 1 - done)
        case "cosine":
            return peak * (1 + math.cos(math.pi * min(1.0, done))) / 2
        case "constant":
            return peak
        case "wsd":
            return peak * min(1.0, max(0.0, 1 - done) / DECAY_SHARE)


def noam_peak(d_model: int, warmup_steps: int) -> float:
    """The paper's highest rate: d_model^-0.5 * warmup_steps^-0.5 (eq. 3 at step = warmup_steps)."""
    return (d_model * max(1, warmup_steps)) ** -0.5
