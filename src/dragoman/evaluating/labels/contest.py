"""A model beside its baselines on the same test set: how good they are, and which of them are ahead of it."""

from collections.abc import Mapping, Sequence

from dragoman.evaluating.labels.classification import Labelled
from dragoman.evaluating.labels.evaluation import LabelEvaluation, compare_labels, evaluate_labels
from dragoman.evaluating.metrics import SAMPLES
from dragoman.evaluating.significance import Comparison

SEARCH = "a baseline, learned from the training set"


def judge_baselines(
    model: LabelEvaluation, found: Mapping[str, Labelled], samples: int = SAMPLES
) -> list[LabelEvaluation]:
    """Scores what baselines found, by their names, on the test set of a model."""
    return [
        evaluate_labels(
            model.labels,
            model.gold,
            labels,
            system=name,
            test=model.test,
            sha256=model.sha256,
            search=SEARCH,
            samples=samples,
        )
        for name, labels in found.items()
    ]


def ahead_of(model: LabelEvaluation, baselines: Sequence[LabelEvaluation]) -> list[Comparison]:
    """Compares the model with each baseline that is ahead of it by its first metric: accuracy, or F1 of entities."""
    metric = next(iter(model.scores))
    reached = model.scores[metric].value
    ahead = [each for each in baselines if each.scores[metric].value > reached]
    return [compare_labels(each, model, metrics=[metric])[metric] for each in ahead]
