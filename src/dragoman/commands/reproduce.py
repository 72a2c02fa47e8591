"""Whether a recipe scores here as well as where it was written: `dragoman reproduce`."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from dragoman import machine
from dragoman.commands.train import train
from dragoman.errors import ConfigError
from dragoman.evaluating.metrics import Score
from dragoman.evaluating.scores import read_scores
from dragoman.recipe.expected import Expected
from dragoman.recipe.recipe import LIMITS
from dragoman.recipe.source import find_recipe
from dragoman.run_folder import RunFolder
from dragoman.runs.options import RunOptions
from dragoman.training.distributed import refuse_several

LIMIT_SETTINGS = [f"train.{name}" for name in LIMITS]
"""Settings that limit training; a reproduction sets them itself."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reproduction:
    """A recipe's score on this machine beside the expected one."""

    folder: Path
    """The run's folder."""
    expected: Expected
    found: Score

    @property
    def met(self) -> bool:
        """Whether the score is of the expected kind, and at least as good as the expected seeds suggest."""
        return self.expected.is_met_by(self.found.value) and not self._is_another_score

    def __str__(self) -> str:
        expected = self.expected
        if self._is_another_score:
            return (
                f"the score is {self.found.signature}, but {expected.signature} was expected; they cannot be compared"
            )
        return (
            f"{self.found.name} {self.found.printed}, {expected.bar}: {'met' if self.met else 'not met'} "
            f"({self.found.signature})"
        )

    @property
    def _is_another_score(self) -> bool:
        return _unversioned(self.found.signature) != _unversioned(self.expected.signature)


def reproduce(recipe: str | Path, **options: Unpack[RunOptions]) -> Reproduction:
    """Trains by a recipe for as many steps as its expected scores took, and compares the score with them.

    The `options` are those of `train`. Calling again continues an interrupted run.

    Raises:
        ConfigError: the recipe has no expected scores, or the run of its name was trained for more steps; and what
            `train` raises.
    """
    refuse_several("a reproduction")
    overrides = options.get("overrides", ())
    if limits := [text for text in overrides if text.partition("=")[0].strip() in LIMIT_SETTINGS]:
        raise ConfigError(f"{limits[0]} cannot be set here: a recipe is reproduced in as many steps as its scores took")
    source = find_recipe(recipe, overrides)
    expected = source.expected
    if expected is None:
        raise ConfigError(
            f"{source.origin} has no [expected] scores, from at least three seeds, to compare with; "
            f"dragoman train {recipe} just runs it"
        )
    device, _ = machine.choose_device(options.get("device", "auto"))
    precision, _ = machine.choose_precision(source.tables.get("train", {}).get("precision", "auto"), device)
    minutes = expected.minutes * expected.gflops / machine.gemm_rate(precision, device=device)
    log.info("%s steps, about %.0f minutes here by this machine's matrix products", f"{expected.steps:,}", minutes)
    options["overrides"] = [f"train.steps={expected.steps}", *overrides]
    result = train(recipe, **options)
    folder = result.folder
    if result.steps > expected.steps:
        raise ConfigError(
            f"{folder} was trained further, to step {result.steps:,}, but {source.origin} expects its scores after "
            f"{expected.steps:,}; use --fresh or another --name"
        )
    scores = read_scores(RunFolder(folder).scores).get("test", {})
    if expected.key not in scores:
        raise ConfigError(f"{folder} has no test set, so nothing can be compared with {source.origin}")
    return Reproduction(folder, expected, scores[expected.key])


def _unversioned(signature: str) -> str:
    return signature.partition("|version:")[0]
