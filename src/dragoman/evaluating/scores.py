"""Reading and writing of `scores.json`, the evaluations of a run of any task, without loading a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import pydantic

from dragoman.config import Settings, read_json_as
from dragoman.errors import DataError
from dragoman.evaluating.metrics import SAMPLES, SEED, Score, interval
from dragoman.evaluating.significance import Comparison
from dragoman.serialization import read_object, write_json

FORMAT, COMET = 1, "COMET"
HIGHEST = 1e6
"""Upper limit of a plausible score; TER itself has no upper bound."""


class HasFacts(Protocol):
    """Evaluation of any task."""

    def facts(self) -> dict[str, Any]:
        """Return its entry in `scores.json`."""
        ...


def write_scores(
    path: Path | str,
    evaluations: Sequence[HasFacts],
    comparisons: Sequence[Comparison] = (),
    baselines: Sequence[HasFacts] = (),
) -> None:
    """Write `scores.json`: all facts of the evaluations, the comparisons, and the baselines, if there are any."""
    facts: dict[str, Any] = {
        "format": FORMAT,
        "evaluations": [evaluation.facts() for evaluation in evaluations],
        "comparisons": [
            {**dataclasses.asdict(comparison), "better": comparison.better, "sentence": str(comparison)}
            for comparison in comparisons
        ],
    }
    if baselines:
        facts["baselines"] = [baseline.facts() for baseline in baselines]
    write_json(path, facts)


def _refuse_impossible(score: Score) -> Score:
    if (score.low is None) is not (score.high is None):
        raise ValueError("low and high must be given together")
    lowest = -HIGHEST if score.name == COMET else 0
    if any(number is not None and not lowest <= number <= HIGHEST for number in (score.value, score.low, score.high)):
        raise ValueError(f"value, low and high must be from 0 to {HIGHEST:,.0f}")
    return score


class StoredTestSet(Settings, extra="ignore"):
    """Test set of a stored evaluation."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def stem(self) -> str:
        """The name without its suffix: `test` for `test.jsonl`."""
        return Path(self.name).stem


class StoredEvaluation(Settings, extra="ignore"):
    """Evaluation of one system on one test set, as stored in `scores.json`."""

    system: str
    search: str
    """Description of the search."""
    test: StoredTestSet
    scores: Annotated[
        dict[str, Annotated[Score, pydantic.AfterValidator(_refuse_impossible)]], pydantic.Field(min_length=1)
    ]
    """Scores by metric."""
    counts: dict[str, int]


class _ScoresFile(Settings, extra="ignore"):
    evaluations: tuple[StoredEvaluation, ...]
    baselines: tuple[StoredEvaluation, ...] = ()


def read_evaluations(path: Path) -> tuple[StoredEvaluation, ...]:
    """Return the evaluations in a `scores.json`, in the order of the file."""
    return read_json_as(path, _ScoresFile, FORMAT).evaluations


def read_baselines(path: Path) -> tuple[StoredEvaluation, ...]:
    """Return the evaluations of the baselines in a `scores.json`."""
    return read_json_as(path, _ScoresFile, FORMAT).baselines


def read_scores(path: Path) -> dict[str, dict[str, Score]]:
    """Return the scores in a `scores.json` by test set (`test` for `test.jsonl`) and metric."""
    return {evaluation.test.stem: evaluation.scores for evaluation in read_evaluations(path)}


def read_comet(path: Path, hypotheses: Sequence[str]) -> Score:
    """Return the COMET score, in points of 100, that `comet-score --to_json` wrote for these translations.

    Raises:
        DataError: the file holds no scores of them.
    """
    texts = [text.strip() for text in hypotheses]
    for rows in read_object(path).values():
        with suppress(KeyError, TypeError, ValueError):
            if [row["mt"] for row in rows] == texts:
                values = 100 * np.array([float(row["COMET"]) for row in rows])
                if not np.isfinite(values).all():
                    break
                draws = np.random.default_rng(SEED).integers(len(values), size=(SAMPLES, len(values)))
                signature = f"file:{path.name}|bs:{SAMPLES}|seed:{SEED}"
                return Score(COMET, float(values.mean()), *interval(values[draws].mean(1)), signature, "")
    raise DataError(
        f"{path} has no scores of these {len(texts):,} translations; docs/evaluating.md says how to write it"
    )


HEADINGS = ("metric", "score", "95 % interval", "signature")


def score_rows(scores: Iterable[Score]) -> list[tuple[str, str, str, str]]:
    """Return scores as rows of a table with the columns `HEADINGS`."""
    return [
        (
            score.name,
            score.printed,
            "" if score.low is None else f"{score.low:.1f} to {score.high:.1f}",
            score.signature,
        )
        for score in scores
    ]
