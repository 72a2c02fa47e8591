"""Several engines over one inbox: they find what one finds, and an error fails the requests that it met."""

import threading
from collections.abc import Sequence

import numpy as np
import pytest
from reference_search import Toy, search

from dragoman.decoding.engine import Engine, Inbox, WorkerPool
from dragoman.decoding.model_stepper import TensorScores
from dragoman.decoding.request import Request

SIZE, START, END = 6, 0, 1


def requests(count: int) -> list[Request]:
    return [Request([number, *range(number % 5)], 4 + number % 7, 1 + number % 3, 1, 0.6) for number in range(count)]


def pool(workers: int, toy: type[Toy] = Toy, batch_tokens: int = 20) -> WorkerPool:
    return WorkerPool(
        workers, lambda inbox: Engine(toy(SIZE), start=START, end=END, batch_tokens=batch_tokens, inbox=inbox)
    )


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_pool_finds_what_one_engine_finds(workers: int) -> None:
    asked = requests(40)
    found = {each.ticket: each.hypotheses for each in pool(workers).run(asked)}
    assert [found[number] for number in range(40)] == search(Engine(Toy(SIZE), start=START, end=END), asked)


def test_engines_share_what_they_begin_with() -> None:
    inbox = Inbox(engines=2)
    for request in requests(7):
        inbox.add(request)
    began = [len(inbox.take(0, 0, 4096)) for _ in range(2)]
    assert began == [4, 3] and not inbox
    for request in requests(7):
        inbox.add(request)
    assert len(inbox.take(0, 0, 4096)) == 7, "later, one that has room takes all"


def test_an_idle_pool_finds_nothing() -> None:
    assert list(pool(3).run([])) == []


class Broken(Toy):
    """A toy that fails when it meets one of the sources."""

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        if any(source[0] == 7 for source in sources):
            raise MemoryError("there is no memory for the rows under way")
        super().admit(sources)


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_of_one_stepper_is_that_of_the_requests_it_met_alone(workers: int) -> None:
    asked = requests(40)
    found = {each.ticket: each for each in pool(workers, Broken).run(asked)}
    with pytest.raises(MemoryError, match="rows under way"):
        _ = found.pop(7).hypotheses
    plain = search(Engine(Toy(SIZE), start=START, end=END), asked)
    assert {ticket: each.hypotheses for ticket, each in found.items()} == {
        ticket: hypotheses for ticket, hypotheses in enumerate(plain) if ticket != 7
    }


class Endless(Toy):
    """A toy that never writes the end."""

    def advance(self, token: np.ndarray) -> TensorScores:
        step = super().advance(token)
        step.forbid(np.arange(len(token))[:, None], np.array([END]))
        return step


def test_who_stops_listening_stops_the_pool() -> None:
    before = threading.active_count()
    asked = [Request([number], 3 if number == 0 else 100_000) for number in range(4)]
    running = pool(2, Endless).run(asked)
    assert next(running).ticket == 0
    running.close()
    assert threading.active_count() == before


def test_engines_share_what_waits_and_no_ticket_is_given_twice() -> None:
    inbox = Inbox()
    one, other = (Engine(Toy(SIZE), start=START, end=END, batch_tokens=1, inbox=inbox) for _ in range(2))
    tickets = [engine.admit(request) for engine, request in zip((one, other), requests(2), strict=True)]
    assert len(set(tickets)) == 2
    one.cancel(tickets[0])
    assert [found.ticket for found in other.run()] == tickets[1:], "the other's request still waited"
    tickets = [one.admit(request) for request in requests(2)]
    one.step()
    other.step()
    assert sorted([*one.active, *other.active]) == tickets


def test_who_cancels_through_the_inbox_frees_the_rows_before_the_next_step() -> None:
    inbox, toy = Inbox(), Endless(SIZE)
    engine = Engine(toy, start=START, end=END, inbox=inbox)
    kept, dropped = (inbox.add(Request([number], 5)) for number in range(2))
    engine.step()
    inbox.cancel(dropped)
    assert engine.active == [kept, dropped]
    assert engine.step() == [] and len(toy.rows) == 1
    assert [result.ticket for result in engine.run()] == [kept]


def test_cancelling_what_has_ended_leaves_nothing_behind() -> None:
    inbox = Inbox()
    engine = Engine(Endless(SIZE), start=START, end=END, inbox=inbox)
    under_way, waits = inbox.add(Request([0], 3)), inbox.add(Request([1], 3))
    inbox.cancel(waits)
    assert [result.ticket for result in engine.run()] == [under_way]
    for ticket in (under_way, waits, 99):
        inbox.cancel(ticket)
    assert not inbox.cancelled and not engine.busy
