"""Reads `scores.json`, which `write_scores` writes, without loading a model."""

from pathlib import Path
from typing import Annotated

import pydantic

from dragoman.config import Settings
from dragoman.documents import read_document
from dragoman.evaluating.metrics import Score

FORMAT = 1
HIGHEST = 1e6
"""Higher than any score that makes sense; TER has no upper bound."""


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
    """The evaluations in a `scores.json`, in its order.

    Raises:
        CheckpointError: the file is missing, foreign or damaged.
    """
    return read_document(path, _ScoresFile, FORMAT).evaluations


def read_baselines(path: Path) -> tuple[KeptEvaluation, ...]:
    """The evaluations of the baselines beside them.

    Raises:
        CheckpointError: the file is missing, foreign or damaged.
    """
    return read_document(path, _ScoresFile, FORMAT).baselines


def read_scores(path: Path) -> dict[str, dict[str, Score]]:
    """The scores in a `scores.json`, by test set (`test` of `test.jsonl`) and metric.

    Raises:
        CheckpointError: the file is missing, foreign or damaged.
    """
    return {found.test.stem: found.scores for found in read_evaluations(path)}
