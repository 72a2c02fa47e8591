"""A classifier or tagger on a test set, and the baselines beside it: all that belongs to their scores.

Start with `evaluate_labels`. The labels may come from a model or from a baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

from dragoman.brief import brief_scores
from dragoman.evaluating.confusion import Confusion
from dragoman.evaluating.label_metrics import (
    Labelled,
    LabelRow,
    Rows,
    checked,
    entity_rows,
    entity_statistics,
    label_rows,
    label_statistics,
    names_in,
)
from dragoman.evaluating.meaning import BASELINE
from dragoman.evaluating.metrics import SAMPLES, Score, Statistics, summary
from dragoman.evaluating.significance import Comparison, compare_systems
from dragoman.tokenizing.labels import Labels

MOST_PROBABLE = "the most probable label"
LEARNED = f"{BASELINE}, learned from the training set"


@dataclass(frozen=True)
class LabelEvaluation:
    """One system on one test set."""

    __repr__ = brief_scores

    system: str
    test: str
    """The name of the test set's file."""
    sha256: str
    """SHA-256 of that file."""
    labels: Labels
    gold: Rows
    found: Rows
    scores: dict[str, Score]
    """By metric: `accuracy` and `macro_f1`; for entities `f1`, `precision`, `recall` and `accuracy`."""
    search: str = MOST_PROBABLE
    """How the labels were chosen, in words."""
    calibration_error: float | None = None
    """By how many points of 100 the probabilities of a classifier are off (`expected_calibration_error`)."""

    @property
    def test_name(self) -> str:
        return self.test

    @property
    def test_identity(self) -> tuple[str, Rows]:
        return self.sha256, self.gold

    @classmethod
    def counted(cls, evaluations: Sequence[Self]) -> list[dict[str, Statistics]]:
        """What each metric counted for each system, in the same columns."""
        first = evaluations[0]
        names = names_in(first.gold, *(each.found for each in evaluations))
        return [_statistics(first.labels, each.gold, each.found, names) for each in evaluations]

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows, of words for a tagger, and of wrong labels."""
        pairs = [pair for row in zip(self.gold, self.found, strict=True) for pair in zip(*row, strict=True)]
        wrong = sum(right != other for right, other in pairs)
        if self.labels.task == "classify":
            return {"texts": len(self.gold), "wrong": wrong}
        return {"sentences": len(self.gold), "words": len(pairs), "wrong words": wrong}

    @cached_property
    def confusion(self) -> Confusion:
        """Which labels were taken for which."""
        return Confusion.of(self.gold, self.found)

    @property
    def label_rows(self) -> list[LabelRow]:
        """Precision, recall and F1 of each label."""
        return label_rows(self.gold, self.found)

    @property
    def entity_rows(self) -> list[LabelRow]:
        """Precision, recall and F1 of each type of entity; empty if the labels mark none."""
        return entity_rows(self.gold, self.found) if self.labels.bio else []

    def facts(self) -> dict[str, Any]:
        """Everything but the labels of each row, as plain values for JSON."""
        return {
            "system": self.system,
            "search": self.search,
            "test": {"name": self.test, "lines": len(self.gold), "sha256": self.sha256},
            "scores": {name: asdict(score) for name, score in self.scores.items()},
            "counts": self.counts,
            "calibration_error": self.calibration_error,
            "labels": [row._asdict() for row in self.label_rows],
            "entities": [row._asdict() for row in self.entity_rows],
            "confusion": self.confusion.facts(),
        }


def evaluate_labels(
    labels: Labels,
    gold: Labelled,
    found: Labelled,
    *,
    system: str,
    test: str,
    sha256: str,
    search: str = MOST_PROBABLE,
    samples: int = SAMPLES,
) -> LabelEvaluation:
    """Scores found labels against gold ones, with intervals from `samples` bootstrap samples; 0 for none."""
    gold, found = checked(gold, found)
    counted = _statistics(labels, gold, found, names_in(gold, found))
    scores = {name: summary(each, samples) for name, each in counted.items()}
    return LabelEvaluation(system, test, sha256, labels, gold, found, scores, search)


def _statistics(labels: Labels, gold: Rows, found: Rows, names: Sequence[str]) -> dict[str, Statistics]:
    of_labels = label_statistics(gold, found, names)
    if labels.bio:  # macro F1 would weigh B and I of a type as two labels
        return {**entity_statistics(gold, found), "accuracy": of_labels["accuracy"]}
    return of_labels


def judge_baselines(
    model: LabelEvaluation, found: Mapping[str, Labelled], samples: int = SAMPLES
) -> list[LabelEvaluation]:
    """Scores what baselines found, by their names, on the test set of a model."""
    facts: dict[str, Any] = {"test": model.test, "sha256": model.sha256, "search": LEARNED, "samples": samples}
    return [evaluate_labels(model.labels, model.gold, labels, system=name, **facts) for name, labels in found.items()]


def ahead_of(model: LabelEvaluation, baselines: Sequence[LabelEvaluation]) -> list[Comparison]:
    """Compares the model with each baseline that is ahead of it by its first metric: accuracy, or F1 of entities."""
    metric = next(iter(model.scores))
    reached = model.scores[metric].value
    ahead = [each for each in baselines if each.scores[metric].value > reached]
    return [compare_systems([each], [model], metrics=[metric])[metric] for each in ahead]
