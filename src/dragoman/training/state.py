"""Everything that a run needs to go on as if it had never stopped."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.training.optimiser import MasterWeights


@dataclass
class TrainState:
    """The state of a run: weights and optimiser in `masters`, and the counts that decide dropout and the order of the
    data.
    """

    masters: MasterWeights
    step: int = 0
    """Steps done."""
    epoch: int = 0
    """The epoch of the next batch, counted from 0."""
    batch: int = 0
    """The index of the next batch within its epoch."""
    tokens: int = 0
    """Source and target tokens seen."""
    skipped: int = 0
    """Steps whose gradient was not finite."""
    skipped_in_a_row: int = 0
    average: Tensor | None = None
    """The moving average of the weights that train, laid out like `masters.flat`; None if none is kept."""
    best_score: float | None = None
    """The highest score of a validation; None before the first."""
    best_step: int = 0
    """The step of the best model."""
    validations_since_best: int = 0

    def counts(self) -> dict[str, int | float | None]:
        """The plain numbers, for `training.json`."""
        return {name: value for name, value in vars(self).items() if name not in ("masters", "average")}

    @torch.no_grad()
    def average_in(self, share: float) -> None:
        """Moves the average towards the current weights, so that it remembers about this share of the steps so far.

        The memory of this exponential moving average grows with the run (Karras et al. 2024, section 3.1). So it suits
        runs of any length, and it forgets the first weights by itself.
        """
        if self.average is None:
            self.average = self.masters.flat.clone()
        else:
            self.average.lerp_(self.masters.flat, min(1.0, 1 / (share * self.step)))

    @property
    def averages(self) -> dict[str, Tensor]:
        """The average of each weight that trains; empty if none is kept."""
        return {} if self.average is None else self.masters.views(self.average)

    @property
    def weights(self) -> dict[str, Tensor]:
        """The weights to validate and to save: the average if there is one, else the masters."""
        return {name: weight.detach() for name, weight in self.masters.weights.items()} | self.averages
