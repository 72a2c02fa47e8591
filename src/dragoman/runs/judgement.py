"""Whether a finished run met the scores that its recipe expects (`[expected]`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dragoman.config import check
from dragoman.evaluating.metrics import Score
from dragoman.evaluating.scores import read_scores
from dragoman.recipe.expected import Expected
from dragoman.recipe.recipe import read_recipe
from dragoman.recipe.source import changed_settings
from dragoman.run_folder import RunFolder
from dragoman.runs.facts import read_facts


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
    found: Score | None
    unjudged: str = ""
    """Why the score is not judged; empty if it is."""

    @property
    def met(self) -> bool | None:
        """Whether the score is of the expected kind, and at least as good as the expected seeds suggest; None if the
        run is not judged.
        """
        if self.unjudged or self.found is None:
            return None
        return self.expected.is_met_by(self.found.value) and not self._is_another_score(self.found)

    def __str__(self) -> str:
        found, expected = self.found, self.expected
        if self.unjudged or found is None:
            return f"not judged by the recipe's expected score: {self.unjudged}"
        if self._is_another_score(found):
            return f"the score is {found.signature}, but {expected.signature} was expected; they cannot be compared"
        return f"{found.name} {found.printed}, {expected.bar}: {'met' if self.met else 'not met'} ({found.signature})"

    def _is_another_score(self, found: Score) -> bool:
        return _unversioned(found.signature) != _unversioned(self.expected.signature)


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
    found = read_scores(run.scores).get("test", {}).get(expected.key)
    return Judgement(expected, found, "" if found else f"the run has no {expected.metric} of a test set")


def _unversioned(signature: str) -> str:
    return signature.partition("|version:")[0]
