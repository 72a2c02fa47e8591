"""Two systems on the same test set: which one is better, metric by metric. Start with `compare_systems`."""

from collections.abc import Sequence

from dragoman.errors import DataError
from dragoman.evaluating.evaluation import Evaluation
from dragoman.evaluating.groups import compare_groups
from dragoman.evaluating.metrics import Measures
from dragoman.evaluating.significance import TRIALS, Comparison, compare_outputs


def compare_systems(first: Evaluation, second: Evaluation, *, samples: int = TRIALS) -> dict[str, Comparison]:
    """Tests, metric by metric, whether one of two systems is better on the test set that both translated.

    Raises:
        DataError: they did not translate the same test set.
    """
    _check_same_test([first, second])
    return compare_outputs(
        first.hypotheses,
        second.hypotheses,
        first.test.references,
        names=(first.system, second.system),
        samples=samples,
        **_common_measures(first, second),
    )


def compare_seeds(
    first: Sequence[Evaluation], second: Sequence[Evaluation], names: tuple[str, str]
) -> dict[str, Comparison]:
    """Tests, metric by metric, whether one of two systems is better when each was trained from several seeds.

    Raises:
        DataError: they did not all translate the same test set.
        ConfigError: a system has a single seed.
    """
    _check_same_test([*first, *second])
    return compare_groups(
        [each.hypotheses for each in first],
        [each.hypotheses for each in second],
        first[0].test.references,
        names=names,
        **_common_measures(first[0], second[0]),
    )


def _check_same_test(evaluations: Sequence[Evaluation]) -> None:
    first = evaluations[0]
    for other in evaluations[1:]:
        if first.test.identity != other.test.identity:
            raise DataError(
                f"{first.system} was evaluated on {first.test.name} and {other.system} on {other.test.name}; "
                "only systems on the same test set can be compared"
            )


def _common_measures(first: Evaluation, second: Evaluation) -> Measures:
    """How the first was measured, by the metrics that both have."""
    return {**first.measures, "metrics": [metric for metric in first.scores if metric in second.scores]}
