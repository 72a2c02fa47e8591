"""Several models that translate as one."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from dragoman.decoding.compiled_stepper import LogitStep, NativeStepper
from dragoman.decoding.scoring import Judge
from dragoman.decoding.steppers import Step, Stepper


class EnsembleStepper:
    """Steps models of one vocabulary side by side. What follows has the mean of the probabilities that they give it
    (Sutskever et al. 2014, section 3.6), so the order of the models changes nothing but the last bit.
    """

    def __init__(self, steppers: Sequence[Stepper]) -> None:
        self.steppers = steppers
        self._compiled = all(isinstance(each, NativeStepper) for each in steppers)

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        for each in self.steppers:
            each.admit(sources)

    def advance(self, token: Int[np.ndarray, "R"]) -> Step:
        log_prob = _mean([each.advance(token).log_probs() for each in self.steppers])
        if self._compiled:
            damaged = np.isnan(log_prob).any(1)  # which a search finds out from the norms
            return LogitStep(log_prob, np.where(damaged, np.float32(np.nan), np.float32(0)))
        import torch

        from dragoman.decoding.model_stepper import TensorStep

        return TensorStep(torch.from_numpy(log_prob))

    def select(self, row: Int[np.ndarray, "R2"]) -> None:
        for each in self.steppers:
            each.select(row)

    def judge(
        self, sources: Sequence[Sequence[int]], given: Sequence[Sequence[int]], labels: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "M"]:
        judges = [each for each in self.steppers if isinstance(each, Judge)]
        assert len(judges) == len(self.steppers), "every model scores"
        return _mean([each.judge(sources, given, labels) for each in judges])


def _mean(log_probs: Sequence[Float[np.ndarray, "..."]]) -> Float[np.ndarray, "..."]:
    """The logarithm of the mean probability; NaN where one of them is NaN."""
    with np.errstate(invalid="ignore"):
        return np.logaddexp.reduce(np.stack(log_probs)) - np.float32(math.log(len(log_probs)))
