"""All that a run needs to go on as if it had never stopped."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from dragoman.training.optimiser import MasterWeights


@dataclass
class TrainState:
    """Weights and optimiser are in `masters`; dropout and the order of the data are functions of the numbers here."""

    masters: MasterWeights
    step: int = 0
    """Steps done."""
    epoch: int = 0
    """The epoch of the next batch, counted from 0."""
    batch: int = 0
    """The place of the next batch in its epoch."""
    tokens: int = 0
    """Source and target tokens seen."""
    skipped: int = 0
    """Steps whose gradient was not finite."""
    skipped_in_a_row: int = 0
    average: dict[str, Tensor] = field(default_factory=dict)
    """The moving average of the weights; empty where none is kept."""
    best_score: float | None = None
    best_step: int = 0
    validations_since_best: int = 0

    COUNTS = (
        "step", "epoch", "batch", "tokens", "skipped", "skipped_in_a_row",
        "best_score", "best_step", "validations_since_best",
    )  # fmt: skip

    def counts(self) -> dict[str, int | float | None]:
        """The plain numbers, for `training.json`."""
        return {name: getattr(self, name) for name in self.COUNTS}

    @torch.no_grad()
    def average_in(self, share: float) -> None:
        """Moves the average towards the present weights, so that it remembers about this share of the steps so far.

        An exponential moving average whose memory grows with the run (Karras et al. 2024, section 3.1): it fits runs of
        every length, and the first weights are forgotten by themselves.
        """
        for name, weight in self.masters.weights.items():
            if name in self.average:
                self.average[name].lerp_(weight.detach(), min(1.0, 1 / (share * self.step)))
            else:
                self.average[name] = weight.detach().clone()

    @property
    def weights(self) -> dict[str, Tensor]:
        """What to validate and to hand on: the average where there is one, else the weights themselves."""
        return self.average or {name: weight.detach() for name, weight in self.masters.weights.items()}
