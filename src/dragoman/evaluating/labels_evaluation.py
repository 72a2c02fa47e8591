"""Evaluation of a classifier or tagger on a test set, and of the baselines that it is compared with.

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
from dragoman.evaluating.metrics import SAMPLES, LineStatistics, Score, summary
from dragoman.evaluating.significance import Comparison, compare_systems
from dragoman.tokenizing.labels import Labels

MOST_PROBABLE = "the most probable label"
LEARNED = f"{BASELINE}, learned from the training set"


@dataclass(frozen=True)
class LabelEvaluation:
    """Evaluation of one classifier, tagger or baseline on one test set."""

    __repr__ = brief_scores

    system: str
    test: str
    """Name of the test set's file."""
    sha256: str
    """SHA-256 of that file."""
    labels: Labels
    gold: Rows
    predicted: Rows
    scores: dict[str, Score]
    """Scores by metric: `accuracy` and `macro_f1`; for entities `f1`, `precision`, `recall` and `accuracy`."""
    search: str = MOST_PROBABLE
    """Description of how the labels were chosen."""
    calibration_error: float | None = None
    """Calibration error of a classifier's probabilities, in points of 100 (`expected_calibration_error`)."""

    @property
    def test_name(self) -> str:
        return self.test

    @property
    def test_identity(self) -> tuple[str, Rows]:
        return self.sha256, self.gold

    @classmethod
    def line_statistics(cls, evaluations: Sequence[Self]) -> list[dict[str, LineStatistics]]:
        """Return, for each system, the line statistics of each metric; all have the same columns."""
        first = evaluations[0]
        names = names_in(first.gold, *(evaluation.predicted for evaluation in evaluations))
        return [_statistics(first.labels, evaluation.gold, evaluation.predicted, names) for evaluation in evaluations]

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows, of words for a tagger, and of wrong labels."""
        pairs = [pair for row in zip(self.gold, self.predicted, strict=True) for pair in zip(*row, strict=True)]
        wrong = sum(gold != predicted for gold, predicted in pairs)
        if self.labels.task == "classify":
            return {"texts": len(self.gold), "wrong": wrong}
        return {"sentences": len(self.gold), "words": len(pairs), "wrong words": wrong}

    @cached_property
    def confusion(self) -> Confusion:
        """The confusion matrix."""
        return Confusion.from_labels(self.gold, self.predicted)

    @property
    def label_rows(self) -> list[LabelRow]:
        """Precision, recall and F1 of each label."""
        return label_rows(self.gold, self.predicted)

    @property
    def entity_rows(self) -> list[LabelRow]:
        """Precision, recall and F1 of each type of entity; empty if the labels mark none."""
        return entity_rows(self.gold, self.predicted) if self.labels.bio else []

    def facts(self) -> dict[str, Any]:
        """Return plain values for JSON: everything except the labels of each row."""
        return {
            "system": self.system,
            "search": self.search,
            "test": {"name": self.test, "lines": len(self.gold), "sha256": self.sha256},
            "scores": {name: asdict(score) for name, score in self.scores.items()},
            "counts": self.counts,
            "calibration_error": self.calibration_error,
            "labels": [row.facts() for row in self.label_rows],
            "entities": [row.facts() for row in self.entity_rows],
            "confusion": self.confusion.facts(),
        }


def evaluate_labels(
    labels: Labels,
    gold: Labelled,
    predicted: Labelled,
    *,
    system: str,
    test: str,
    sha256: str,
    search: str = MOST_PROBABLE,
    samples: int = SAMPLES,
) -> LabelEvaluation:
    """Score predicted labels against gold labels, with intervals from `samples` bootstrap samples; 0 for none."""
    gold, predicted = checked(gold, predicted)
    all_statistics = _statistics(labels, gold, predicted, names_in(gold, predicted))
    scores = {name: summary(statistics, samples) for name, statistics in all_statistics.items()}
    return LabelEvaluation(system, test, sha256, labels, gold, predicted, scores, search)


def _statistics(labels: Labels, gold: Rows, predicted: Rows, names: Sequence[str]) -> dict[str, LineStatistics]:
    statistics = label_statistics(gold, predicted, names)
    if labels.bio:  # macro F1 would weigh B and I of a type as two labels
        return {**entity_statistics(gold, predicted), "accuracy": statistics["accuracy"]}
    return statistics


def judge_baselines(
    model: LabelEvaluation, predicted: Mapping[str, Labelled], samples: int = SAMPLES
) -> list[LabelEvaluation]:
    """Score the labels that baselines, by name, predicted for the test set of a model."""
    facts: dict[str, Any] = {"test": model.test, "sha256": model.sha256, "search": LEARNED, "samples": samples}
    return [
        evaluate_labels(model.labels, model.gold, labels, system=name, **facts) for name, labels in predicted.items()
    ]


def compare_with_better(model: LabelEvaluation, baselines: Sequence[LabelEvaluation]) -> list[Comparison]:
    """Compare the model with each baseline that has a higher first metric: accuracy, or F1 of entities."""
    metric = next(iter(model.scores))
    score = model.scores[metric].value
    better = [baseline for baseline in baselines if baseline.scores[metric].value > score]
    return [compare_systems([baseline], [model], metrics=[metric])[metric] for baseline in better]
