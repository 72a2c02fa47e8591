"""`scores.json`: all evaluations of a run, of any task. Reading it loads no model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import pydantic

from dragoman.config import Settings, read_json_as
from dragoman.evaluating.metrics import Score
from dragoman.evaluating.significance import Comparison
from dragoman.serialization import write_json

FORMAT = 1
HIGHEST = 1e6
"""Higher than any score that makes sense; TER has no upper bound."""


class Described(Protocol):
    """An evaluation of any task."""

    def facts(self) -> dict[str, Any]:
        """All that `scores.json` says of it."""
        ...


def write_scores(
    path: Path | str,
    evaluations: Sequence[Described],
    comparisons: Sequence[Comparison] = (),
    baselines: Sequence[Described] = (),
) -> None:
    """Writes `scores.json`: all facts of the evaluations and comparisons, and of baselines, if there are any."""
    facts: dict[str, Any] = {
        "format": FORMAT,
        "evaluations": [evaluation.facts() for evaluation in evaluations],
        "comparisons": [
            {**dataclasses.asdict(each), "better": each.better, "sentence": str(each)} for each in comparisons
        ],
    }
    if baselines:
        facts["baselines"] = [baseline.facts() for baseline in baselines]
    write_json(path, facts)


def _refuse_impossible(score: Score) -> Score:
    if (score.low is None) is not (score.high is None):
        raise ValueError("low and high must be given together")
    if any(number is not None and not 0 <= number <= HIGHEST for number in (score.value, score.low, score.high)):
        raise ValueError(f"value, low and high must be from 0 to {HIGHEST:,.0f}")
    return score


class KeptTest(Settings, extra="ignore"):
    """The test set of an evaluation."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def stem(self) -> str:
        """`test` of `test.jsonl`."""
        return Path(self.name).stem


class KeptEvaluation(Settings, extra="ignore"):
    """One system on one test set, as `scores.json` keeps it."""

    system: str
    search: str
    """How the translations were found, in words."""
    test: KeptTest
    scores: Annotated[
        dict[str, Annotated[Score, pydantic.AfterValidator(_refuse_impossible)]], pydantic.Field(min_length=1)
    ]
    """By metric."""
    counts: dict[str, int]


class _ScoresFile(Settings, extra="ignore"):
    evaluations: tuple[KeptEvaluation, ...]
    baselines: tuple[KeptEvaluation, ...] = ()


def read_evaluations(path: Path) -> tuple[KeptEvaluation, ...]:
    """The evaluations in a `scores.json`, in its order."""
    return read_json_as(path, _ScoresFile, FORMAT).evaluations


def read_baselines(path: Path) -> tuple[KeptEvaluation, ...]:
    """The evaluations of the baselines beside them."""
    return read_json_as(path, _ScoresFile, FORMAT).baselines


def read_scores(path: Path) -> dict[str, dict[str, Score]]:
    """The scores in a `scores.json`, by test set (`test` of `test.jsonl`) and metric."""
    return {evaluation.test.stem: evaluation.scores for evaluation in read_evaluations(path)}


HEADINGS = ("metric", "score", "95 % interval", "signature")


def score_rows(scores: Iterable[Score]) -> list[tuple[str, str, str, str]]:
    """Scores as a table, under `HEADINGS`."""
    rows = []
    for score in scores:
        interval = "" if score.low is None else f"{score.low:.1f} to {score.high:.1f}"
        rows.append((score.name, score.printed, interval, score.signature))
    return rows
