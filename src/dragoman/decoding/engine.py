"""Requests that wait. Several engines, each in a thread of its own, may take from one queue.

The one search: greedy, beam or sampling, over any `Stepper`, for requests that come while others are under way.

    engine = Engine(stepper, start=2, end=3)
    ticket = engine.admit(Request([2, 17, 25, 3], limit=20, beam_size=4))
    while engine.busy:
        for found in engine.step(): ...

A request leaves as soon as it is done, and waiting ones enter in its place. What a request finds does not depend on the
others, even if they fail: it is what `beam` finds for it alone, in plain Python. Only an error at a step itself ends
all requests under way. Here they are continued at once, by a few operations on arrays. The engine knows ids only;
`translating` knows text.

Several engines over one model, each in a thread of its own: a file is translated by all cores.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import count
from operator import attrgetter
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from dragoman.decoding.batched_beam import Company, Next, Outcome, Search
from dragoman.decoding.hypothesis import Hypothesis, SearchObserver, Table
from dragoman.decoding.processors import Rule, Written
from dragoman.decoding.request import Request
from dragoman.decoding.steppers import Best, Step, Stepper
from dragoman.errors import Interrupted


class Queue:
    """Of those that are added between two takings, that with the largest `room` enters first, after all before them.

    The first takings, as many as there are `takers`, leave the others their share. Otherwise the first taker would get
    all of a few requests, and the others would have nothing to do.
    """

    def __init__(self, takers: int = 1) -> None:
        self._to_begin, self._tickets = takers, count()
        self._added: list[Search] = []
        self._waiting: deque[Search] = deque()
        self._lock = Lock()

    def __bool__(self) -> bool:
        return bool(self._added or self._waiting)

    def add(self, request: Request, end: int) -> int:
        """Lets a request wait, whose hypotheses end with the symbol `end`; returns its ticket, the only one of this
        number.
        """
        with self._lock:
            search = Search(next(self._tickets), request, end)
            self._added.append(search)
        return search.ticket

    def remove(self, ticket: int) -> None:
        """Forgets the request with this ticket, if it waits."""
        with self._lock:
            self._added = [search for search in self._added if search.ticket != ticket]
            self._waiting = deque(search for search in self._waiting if search.ticket != ticket)

    def take(self, rows: int, longest: int, batch_tokens: int) -> list[Search]:
        """Those that enter beside so many `rows`, the longest of which has so many tokens: rows times the longest stay
        within `batch_tokens`, but where there is no row, one request always enters.
        """
        with self._lock:
            self._waiting.extend(sorted(self._added, key=lambda search: -search.request.room))
            self._added.clear()
            share = math.ceil(len(self._waiting) / max(1, self._to_begin))
            self._to_begin -= 1
            entering: list[Search] = []
            while self._waiting and len(entering) < share:
                request = self._waiting[0].request
                longest, rows = max(longest, request.room), rows + request.beam_size
                if rows * longest > batch_tokens and rows > request.beam_size:
                    break
                entering.append(self._waiting.popleft())
            return entering


_REFILL = 0.75
"""Waiting requests enter when no more than this part of the room is taken: a few together are read faster than one."""


class Found(NamedTuple):
    """How the request with this ticket ended."""

    ticket: int
    outcome: Outcome

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """What the request found, best first.

        Raises:
            Exception: the request failed by this error: its log-probabilities are NaN (DecodeError), memory is full.
        """
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Engine:
    """Searches for any number of requests at once, one token a step.

    A request holds `beam_size` rows. Requests of one kind hold neighbouring rows, so that each kind is expanded as a
    rectangle. `start` is the token that the decoder is fed first, and `end` the one that ends a hypothesis. The rows
    under way, times the largest `room` among their requests, stay within `batch_tokens`, but one request always enters.
    """

    def __init__(
        self,
        stepper: Stepper,
        *,
        start: int,
        end: int,
        batch_tokens: int = 4096,
        observer: SearchObserver | None = None,
        queue: Queue | None = None,
    ) -> None:
        """Engines may share a queue; each then takes from it what it has room for."""
        self.stepper, self.start, self.end = stepper, start, end
        self.batch_tokens, self.observer = batch_tokens, observer
        self._queue = queue if queue is not None else Queue()
        self._searches: list[Search] = []  # under way, by kind; their rows follow one another
        self._companies: list[Company] = []
        self._obeyed: list[tuple[Rule, Int[np.ndarray, "Q"], float]] = []  # by these rows, until this step
        self._table, self._now = Table(), 0

    @property
    def busy(self) -> bool:
        """Whether any request waits or is under way."""
        return bool(self._queue or self._searches)

    @property
    def under_way(self) -> list[int]:
        """Tickets of the requests that hold rows."""
        return [search.ticket for search in self._searches]

    def admit(self, request: Request) -> int:
        """Takes in a request, which enters at a later `step`; returns its ticket.

        Of the requests that arrive between two steps, that with the largest `room` enters first, after all that arrived
        earlier.
        """
        return self._queue.add(request, self.end)

    def cancel(self, ticket: int) -> None:
        """Forgets a request and frees its rows at once. For a finished ticket it does nothing."""
        self._queue.remove(ticket)
        if ticket in self.under_way:
            self._keep(lambda search: search.ticket != ticket)

    def agreed(self, ticket: int, after: int = 0) -> tuple[int, ...]:
        """The tokens that every possible result of a request begins with, those from the place `after` on; none while
        it waits.
        """
        for company in self._companies:
            for b, search in enumerate(company.searches):
                if search.ticket == ticket:
                    return company.agreed(b, self._table, after)
        return ()

    def run(self) -> Iterator[Found]:
        """Steps until no request is left; yields how each ended, in that order."""
        while self.busy:
            yield from self.step()

    def step(self) -> list[Found]:
        """Writes one more token in every row; returns the requests that ended with it.

        A request whose log-probabilities are NaN fails and leaves, and so does one that the stepper cannot admit; the
        others go on. An error at the step itself ends every request under way, but none that waits.

        Raises:
            Interrupted: a signal asked to stop, whose handler raises this.
        """
        failed = self._enter()
        if not self._searches:
            return failed
        try:
            return failed + self._advance()
        except Interrupted:
            raise
        except Exception as error:
            failed += [Found(ticket, error) for ticket in self.under_way]
            self._keep(lambda _: False)
            return failed

    def _advance(self) -> list[Found]:
        """Writes one more token in every row; returns the requests that ended with it."""
        table = self._table
        step = self.stepper.advance(table.last)
        for rule, rows, until in self._obeyed:
            if self._now < until:
                rule(step, Written(rows, table.tokens, table.lengths))
        self._now += 1
        if self._is_usual:
            company = self._companies[0]
            parent = step.write_next(table, company.limits, self.end)
            if parent is not None:
                return self._leave(company.stopped(table), parent, moves=company.width > 1)
        return self._take(step)

    @property
    def _is_usual(self) -> bool:
        """Whether the step may be taken all at once: nobody watches, and all requests are of one kind."""
        return self.observer is None and len(self._companies) == 1 and self._companies[0].is_usual

    def _enter(self) -> list[Found]:
        """Lets waiting requests in, once enough of the room is free; returns those that the stepper cannot admit."""
        if not self._queue:
            return []
        longest = max((search.request.room for search in self._searches), default=0)
        rows = len(self._table)
        if rows * longest > self.batch_tokens * _REFILL:
            return []
        return self._admit(self._queue.take(rows, longest, self.batch_tokens))

    def _admit(self, entering: list[Search]) -> list[Found]:
        """Gives new requests to the stepper and to the table. Where several fail together, each is tried alone, so that
        none fails by another. Returns those that failed.
        """
        if not entering:
            return []
        try:
            self.stepper.admit([search.request.source for search in entering])
        except Interrupted:
            raise
        except Exception as error:
            self.stepper.select(np.arange(len(self._table)))  # it may have taken some of them in
            if len(entering) == 1:
                return [Found(entering[0].ticket, error)]
            return [failed for search in entering for failed in self._admit([search])]
        self._give_rows(entering)
        return []

    def _give_rows(self, entering: list[Search]) -> None:
        """Gives each new request, which the stepper has admitted to one row, a row for each hypothesis of its beam: the
        first holds the empty hypothesis, the others are empty places. Rows are put in order by the kinds of requests.
        """
        first = len(self._table)
        self._table.enter([self.start if each.request.start is None else each.request.start for each in entering])
        fresh = [(each, [row] * each.request.beam_size) for row, each in enumerate(entering, first)]
        holders = sorted([*self._holders(), *fresh], key=lambda holder: holder[0].kind)
        rows = np.array([row for _, own in holders for row in own])
        if not np.array_equal(rows, np.arange(len(self._table))):
            self.stepper.select(rows)
            self._table.select(rows)
            repeats_the_last = rows[1:] == rows[:-1]
            self._table.totals[1:][repeats_the_last] = -np.inf
        self._go_on_with([search for search, _ in holders])

    def _take(self, step: Step) -> list[Found]:
        """Continues every request, and keeps the rows of those that go on."""
        table = self._table
        parts = [each.continued(table, best, self.observer) for each, best in self._best(step)]
        following = parts[0] if len(parts) == 1 else Next(*map(np.concatenate, zip(*parts, strict=True)))
        moves = any(company.width > 1 for company in self._companies)
        if moves:
            table.select(following.parent)
        table.append(following.token, following.log_prob, following.total)
        outcomes = {ticket: end for each in self._companies for ticket, end in each.ended(table).items()}
        return self._leave(outcomes, following.parent, moves)

    def _leave(self, outcomes: dict[int, Outcome], parent: Int[np.ndarray, "R"], moves: bool) -> list[Found]:
        """Lets the requests go that ended so. `parent` says from which row of the stepper each row of the table goes
        on: from another than its own only if the step `moves` rows.
        """
        if len(outcomes) == len(self._searches):
            self._keep(lambda _: False)
        elif outcomes:
            self._keep(lambda search: search.ticket not in outcomes, parent)
        elif moves:
            self.stepper.select(parent)
        return [Found(ticket, outcome) for ticket, outcome in outcomes.items()]

    def _best(self, step: Step) -> Iterator[tuple[Company, Best]]:
        """Each company, and what its rows may go on with: the best tokens for a search, the one drawn for a sample."""
        searching = [company.candidates for company in self._companies if not company.draws]
        best = step.best(max(searching)) if searching else None
        for company in self._companies:
            if company.draws or best is None:
                yield company, company.drawn(step, self._table)
            elif len(self._companies) == 1:
                yield company, best
            else:
                yield company, Best(*(part[company.rows, : company.candidates] for part in best))

    def _holders(self) -> Iterator[tuple[Search, range]]:
        """Each request under way and its rows."""
        first = 0
        for search in self._searches:
            yield search, range(first, first + search.request.beam_size)
            first += search.request.beam_size

    def _keep(self, stays: Callable[[Search], bool], parent: Int[np.ndarray, "R"] | None = None) -> None:
        """Goes on with the requests that stay, and drops the rows of the others. `parent` says from which row of the
        stepper each row goes on; None: from its own.
        """
        rows = np.array([row for search, rows in self._holders() if stays(search) for row in rows], np.int64)
        self.stepper.select(rows if parent is None else parent[rows])
        self._table.select(rows)
        self._go_on_with([search for search in self._searches if stays(search)])

    def _go_on_with(self, searches: list[Search]) -> None:
        """Makes these the requests under way, by kind, and notes which rows obey which rule, and how long."""
        self._searches, self._companies, self._obeyed = searches, [], []
        first = 0
        for _, alike in itertools.groupby(searches, key=attrgetter("kind")):
            self._companies.append(Company(list(alike), first))
            first = self._companies[-1].rows.stop
        obeying: dict[tuple[Rule, ...], list[int]] = {}  # most requests share their rules with all others
        for search, rows in self._holders():
            obeying.setdefault(search.request.rules, []).extend(rows)
        of_rule: dict[Rule, list[int]] = {}
        for rules, rows in obeying.items():
            for rule in rules:
                of_rule.setdefault(rule, []).extend(rows)
        for rule, each in of_rule.items():
            rows = np.array(each, np.int64)
            if (left := rule.until - int(self._table.lengths[rows].min())) > 0:
                self._obeyed.append((rule, rows, self._now + left))


class Crew:
    """Searches for many requests by `workers` engines, which share what waits. What a request finds depends neither on
    the others nor on the engine that takes it, so a crew finds what one engine finds.

    Threads are enough where a stepper computes outside of Python: only bookkeeping waits for its turn.
    """

    def __init__(self, workers: int, engine: Callable[[Queue], Engine]) -> None:
        """`engine` makes an engine that takes from this queue."""
        queue = Queue(workers)
        self._engines = [engine(queue) for _ in range(workers)]

    def run(self, requests: Sequence[Request]) -> Generator[Found]:
        """How each request ended, as they end; a ticket is the request's place in `requests`.

        Who stops asking stops the engines. What goes wrong outside of their steps is raised here, once they have
        stopped.
        """
        first = self._engines[0]
        tickets = [first.admit(request) for request in requests]
        assert tickets == list(range(len(requests))), "a crew runs once"
        if len(self._engines) == 1:
            yield from first.run()
            return
        yield from self._side_by_side()

    def _side_by_side(self) -> Iterator[Found]:
        ends: SimpleQueue[Found | Exception | None] = SimpleQueue()
        stop = Event()

        def work(engine: Engine) -> None:
            try:
                while engine.busy and not stop.is_set():
                    for found in engine.step():
                        ends.put(found)
            except Exception as error:
                ends.put(error)
            finally:
                ends.put(None)

        threads = [Thread(target=work, args=(engine,), daemon=True) for engine in self._engines]
        for thread in threads:
            thread.start()
        try:
            left = len(threads)
            while left:
                end = ends.get()
                if isinstance(end, Exception):
                    raise end
                if end is None:
                    left -= 1
                else:
                    yield end
        finally:
            stop.set()
            for thread in threads:
                thread.join()
