"""The scores that a recipe reached where it was run (its `[expected]` table), and whether a finished run met them."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import pydantic

from dragoman.config import Settings, check, flatten
from dragoman.evaluating.metrics import Score, unversioned
from dragoman.evaluating.scores import read_scores
from dragoman.run_folder import RunFolder
from dragoman.runs.recipe import Recipe, read_recipe
from dragoman.runs.status import read_facts
from dragoman.training.settings import CHANGEABLE_ON_RESUME

POINTS, NATS, DEVIATIONS = 1.0, 0.02, 3.0
"""A run may score worse than the mean of the seeds by the larger of two margins: so many points of 100, or nats if the
score is a loss; and so many standard deviations of the seeds.
"""
NO_CHANGE = {"data.folder", "train.seed", *(f"train.{name}" for name in CHANGEABLE_ON_RESUME)}
"""Settings that leave a recipe what it is: where its text lies, the seed, and when to save."""


class Expected(Settings):
    """Test scores of several seeds, after as many steps as the recipe takes. A recipe that was run from fewer than
    three seeds has no such table, because one score does not say what the next run should reach.
    """

    metric: Literal["bleu", "chrf", "accuracy", "macro_f1", "f1", "nats_per_character"] = "bleu"
    """What the scores are: points of 100, of which more are better, or nats, of which fewer are."""
    scores: tuple[Annotated[float, pydantic.Field(ge=0, le=100)], ...] = pydantic.Field(min_length=3)
    """One for each seed."""
    signature: str
    """How they were computed; scores with another signature are not comparable."""
    search: str
    """How the translations or labels were found, or the scores were made, in words."""

    @property
    def mean(self) -> float:
        return statistics.mean(self.scores)

    @property
    def key(self) -> str:
        """Under which the scores of a run hold this metric."""
        return "character" if self.metric == "nats_per_character" else self.metric

    @property
    def fewer_is_better(self) -> bool:
        return self.metric == "nats_per_character"

    @property
    def least_margin(self) -> float:
        """The smallest `margin`, in points or nats."""
        return NATS if self.fewer_is_better else POINTS

    @property
    def margin(self) -> float:
        """How much worse than the mean a score may be, in points or nats. A smaller loss goes unseen."""
        return max(self.least_margin, DEVIATIONS * statistics.stdev(self.scores))

    @property
    def worst(self) -> float:
        """The worst score that meets the expectation."""
        return self.mean + self.margin if self.fewer_is_better else self.mean - self.margin

    @property
    def bar(self) -> str:
        """The worst score that meets the expectation, how it follows from the seeds, and what it cannot see."""
        seeds, deviation = len(self.scores), statistics.stdev(self.scores)
        at_least, less, digits = ("at most", "plus", 3) if self.fewer_is_better else ("at least", "less", 1)
        return (
            f"{at_least} {self.worst:.{digits}f} is expected (the mean {self.mean:.{digits}f} of {seeds} seeds, {less} "
            f"the larger of {self.least_margin:.{digits}f} and {DEVIATIONS:.0f} deviations of {deviation:.{digits}f}, "
            f"so a loss of less than {self.margin:.{digits}f} goes unseen)"
        )


class Expectation(NamedTuple):
    """What `run.json` keeps of the scores that a recipe expects."""

    table: dict[str, Any]
    """The `[expected]` table."""
    changed: Sequence[str]
    """Settings in which the run differs from the recipe. If there are any, it is not judged."""

    def but(self, before: dict[str, Any], now: dict[str, Any]) -> "Expectation":
        """For a run whose settings are those of another, with changes."""
        return self._replace(changed=[*self.changed, *changed_settings(before, now)])


@dataclass(frozen=True)
class Judgement:
    """A run's score beside the expected one."""

    expected: Expected
    score: Score | None
    unjudged: str = ""
    """Why the score is not judged; empty if it is."""

    @property
    def met(self) -> bool | None:
        """Whether the score is of the expected kind, and at least as good as the expected seeds suggest; None if the
        run is not judged.
        """
        if self.unjudged or self.score is None:
            return None
        if self._is_another_score(self.score):
            return False
        value, worst = self.score.value, self.expected.worst
        return value <= worst if self.expected.fewer_is_better else value >= worst

    def __str__(self) -> str:
        score, expected = self.score, self.expected
        if self.unjudged or score is None:
            return f"not judged by the recipe's expected score: {self.unjudged}"
        if self._is_another_score(score):
            return f"the score is {score.signature}, but {expected.signature} was expected; they cannot be compared"
        return f"{score.name} {score.printed}, {expected.bar}: {'met' if self.met else 'not met'} ({score.signature})"

    def _is_another_score(self, score: Score) -> bool:
        return unversioned(score.signature) != unversioned(self.expected.signature)


def changed_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Settings in which two recipes differ, so that the scores of one say nothing about the other."""
    one, other = (
        flatten(check(tables, "the command line", Recipe).model_dump(mode="json")) for tables in (before, now)
    )
    return tuple(
        key for key, value in other.items() if value is not None and value != one.get(key) and key not in NO_CHANGE
    )


def judge(run: RunFolder) -> Judgement | None:
    """Compares the test score of a finished run with what its recipe expects; None if it expects nothing."""
    kept = read_facts(run).get("expectation")
    if kept is None:
        return None
    expectation = Expectation(**kept)
    expected = check(expectation.table, str(run.facts), Expected)
    if expectation.changed:
        return Judgement(expected, None, f"{' and '.join(expectation.changed)} changed the recipe")
    if read_recipe(run.recipe).train.continued_from is not None:
        return Judgement(expected, None, "the run was trained further than the recipe")
    score = read_scores(run.scores).get("test", {}).get(expected.key)
    return Judgement(expected, score, "" if score else f"the run has no {expected.metric} of a test set")
