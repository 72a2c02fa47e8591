"""The number of threads of a step follows what steps take, also when that changes."""

import pytest

from dragoman.decoding.compiled_stepper import ThreadTuner


def chosen(tuner: ThreadTuner, cost: dict[int, float], steps: int, rows: int = 1) -> list[int]:
    """The threads of so many steps, which take so many seconds by their number of threads."""
    found: list[int] = []
    for _ in range(steps):
        found.append(tuner.threads(rows))
        tuner.record(rows, found[-1], cost[found[-1]])
    return found


@pytest.mark.parametrize("fastest", [1, 2, 4, 6])
def test_a_step_of_few_rows_tries_all_and_keeps_to_the_fastest(fastest: int) -> None:
    cost = {count: 0.001 if count == fastest else 0.002 for count in (1, 2, 4, 6)}
    tried, kept = (found := chosen(ThreadTuner(6), cost, 120))[:20], found[20:]
    assert sorted(tried) == sorted([1, 2, 4, 6] * 5)
    assert set(kept) == {fastest}


def test_a_machine_that_becomes_busy_changes_the_choice() -> None:
    tuner = ThreadTuner(2)
    assert chosen(tuner, {1: 0.002, 2: 0.001}, 100)[-1] == 2
    assert chosen(tuner, {1: 0.002, 2: 0.020}, 100)[-1] == 1


@pytest.mark.parametrize("before", [0, 1])
def test_a_stalled_step_among_the_tries_decides_nothing(before: int) -> None:
    tuner = ThreadTuner(2)
    chosen(tuner, {1: 0.002, 2: 0.001}, before)
    tuner.record(1, tuner.threads(1), 5.0)
    assert chosen(tuner, {1: 0.002, 2: 0.001}, 60)[-1] == 2


def test_many_rows_use_every_thread_and_a_single_thread_has_no_choice() -> None:
    assert set(chosen(ThreadTuner(4), {4: 1.0}, 20, rows=9)) == {4}
    assert set(chosen(ThreadTuner(1), {1: 1.0}, 20)) == {1}
