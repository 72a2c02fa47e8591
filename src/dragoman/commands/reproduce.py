"""Does a recipe give here what it gave where it was written? `dragoman reproduce`."""

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

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reproduction:
    folder: Path
    expected: Expected
    found: Score

    @property
    def met(self) -> bool:
        """Whether the score is as good as the seeds let expect, or better, and of the same kind."""
        return self.found.value >= self.expected.low and not self._is_another_score

    def __str__(self) -> str:
        expected = self.expected
        if self._is_another_score:
            return f"the score is {self.found.signature}, but {expected.signature} is expected: they cannot be compared"
        return (
            f"{self.found.name} {self.found.value:.1f}, {expected.bar}: {'met' if self.met else 'not met'} "
            f"({self.found.signature})"
        )

    @property
    def _is_another_score(self) -> bool:
        return _unversioned(self.found.signature) != _unversioned(self.expected.signature)


def reproduce(recipe: str | Path, **options: Unpack[RunOptions]) -> Reproduction:
    """Trains by a recipe for the steps that its expected scores took, and holds the score against them.

    The `options` are those of `train`; the same call goes on with what was cut off.

    Raises:
        ConfigError: the recipe expects nothing, because it was not run from three seeds; the run found under its name
            was trained on for more steps; and what `train` raises.
    """
    refuse_several("a reproduction")
    overrides = options.get("overrides", ())
    if limits := [text for text in overrides if text.partition("=")[0].strip() in LIMIT_SETTINGS]:
        raise ConfigError(f"{limits[0]} cannot be set here: a recipe is reproduced in the steps that its scores took")
    source = find_recipe(recipe, overrides)
    expected = source.expected
    if expected is None:
        raise ConfigError(
            f"{source.origin} has no [expected] scores, of three seeds at least, to be held to; "
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
            f"{folder} was trained on to step {result.steps:,}, but {source.origin} expects its scores after "
            f"{expected.steps:,}; use --fresh or another --name"
        )
    scores = read_scores(RunFolder(folder).scores).get("test", {})
    if expected.metric not in scores:
        raise ConfigError(f"{folder} has no test set, so nothing can be held against {source.origin}")
    return Reproduction(folder, expected, scores[expected.metric])


def _unversioned(signature: str) -> str:
    return signature.partition("|version:")[0]
