"""The learning rate as a function of the step."""

import math
from itertools import pairwise

import pytest
import reference

from dragoman.training.settings import Schedule, learning_rate, noam_peak

KINDS: list[Schedule] = ["noam", "linear", "cosine", "constant", "wsd"]


@pytest.mark.parametrize("warmup_steps", [1, 40, 4000])
def test_noam_is_the_papers_equation(warmup_steps: int) -> None:
    peak = noam_peak(512, warmup_steps)
    for step in (1, 2, 39, 40, 41, 4000, 4001, 100_000):
        expected = reference.noam_rate(step, 512, warmup_steps)
        assert learning_rate("noam", step, peak, warmup_steps, 100_000) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_every_schedule_rises_straight_to_its_peak_and_never_exceeds_it(kind: Schedule) -> None:
    rates = [learning_rate(kind, step, 0.5, 10, 50) for step in range(1, 51)]
    assert rates[:10] == pytest.approx([0.05 * step for step in range(1, 11)])
    assert max(rates) == rates[9] == 0.5
    assert all(later <= earlier for earlier, later in pairwise(rates[9:]))
    assert min(rates) >= 0


@pytest.mark.parametrize(
    ("kind", "middle", "last"), [("linear", 0.5, 0.0), ("cosine", 0.5, 0.0), ("constant", 1.0, 1.0)]
)
def test_schedules_pass_through_their_known_points(kind: Schedule, middle: float, last: float) -> None:
    assert learning_rate(kind, 60, 1.0, 20, 100) == pytest.approx(middle)
    assert learning_rate(kind, 100, 1.0, 20, 100) == pytest.approx(last, abs=1e-12)


def test_wsd_stays_at_its_peak_and_falls_over_the_last_fifth() -> None:
    rates = [learning_rate("wsd", step, 1.0, 20, 120) for step in (20, 60, 100, 105, 110, 120)]
    assert rates == pytest.approx([1.0, 1.0, 1.0, 0.75, 0.5, 0.0])


def test_cosine_is_half_a_cosine() -> None:
    assert learning_rate("cosine", 40, 1.0, 20, 100) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("warmup_steps", [0, 1, 7, 20])
def test_every_length_of_warm_up_gives_rates(kind: Schedule, warmup_steps: int) -> None:
    for step in (1, 2, 7):
        assert 0 <= learning_rate(kind, step, 1.0, warmup_steps, 7) <= 1
