"""Batches that are prepared ahead: the values, order and errors of batches made in place; shares of processes."""

import threading
import time
from collections.abc import Iterator

import pytest
from small import Source, few_batches

from dragoman.training.distributed import World
from dragoman.training.prefetching import LOOKAHEAD, fetch, prefetch


def test_values_are_made_ahead_in_order_and_no_more_than_two() -> None:
    made: list[int] = []
    earlier = set(threading.enumerate())

    def make() -> Iterator[int]:
        for number in range(1, 9):
            assert threading.current_thread() is not threading.main_thread()
            made.append(number)
            yield number

    taken: list[int] = []
    for value in prefetch(make()):
        taken.append(value)
        deadline = time.monotonic() + 10
        while len(made) < min(8, value + LOOKAHEAD) and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.01)  # for what must not be made yet
        assert made == list(range(1, min(8, value + LOOKAHEAD) + 1))
    assert taken == list(range(1, 9)) and set(threading.enumerate()) == earlier


@pytest.mark.parametrize(("size", "batches"), [(1, 3), (2, 3), (3, 3), (3, 8)])
def test_each_batch_of_a_step_belongs_to_one_process_and_shares_are_even(size: int, batches: int) -> None:
    data = Source(few_batches(batches))
    shares = [fetch(data, range(batches), World(rank, size)) for rank in range(size)]
    owners = [sum(share[place].batch is not None for share in shares) for place in range(batches)]
    assert owners == [1] * batches
    counts = [sum(part.batch is not None for part in share) for share in shares]
    assert max(counts) - min(counts) <= 1
