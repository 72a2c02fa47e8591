"""The one search: greedy, beam or sampling, over any `Stepper`, for requests that come while others are under way.

    engine = Engine(stepper, start=2, end=3)
    ticket = engine.admit(Request([2, 17, 25, 3], limit=20, beam_size=4))
    while engine.busy:
        for result in engine.step(): ...

A request leaves as soon as it is done, and waiting ones enter in its place. What a request finds does not depend on the
others, even if they fail: it is what `beam` finds for it alone, in plain Python. Only an error at a step itself ends
all requests under way. An engine belongs to one thread; others reach it through its `Inbox`, which several engines, a
`WorkerPool`, may share.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Int

from dragoman.decoding.batched_beam import BeamBatch, Next, Outcome
from dragoman.decoding.beam import Beam
from dragoman.decoding.hypothesis import Hypothesis, Outputs, SearchObserver
from dragoman.decoding.processors import LogitsProcessor
from dragoman.decoding.request import Request
from dragoman.decoding.steppers import Best, Step, Stepper
from dragoman.errors import Interrupted

_REFILL = 0.75
"""Waiting requests enter when no more than this part of the room is taken: a few together are read faster than one."""


class Waiting(NamedTuple):
    """A request that no engine has taken yet."""

    ticket: int
    request: Request


class Inbox:
    """Where requests wait, and are cancelled, from any thread, for any number of engines.

    Of those that are added between two takings, that with the largest `room` enters first, after all before them. The
    first takings, as many as there are `takers`, leave the others their share. Otherwise the first taker would get all
    of a few requests, and the others would have nothing to do.
    """

    def __init__(self, takers: int = 1) -> None:
        self._shares, self._tickets = takers, itertools.count()
        self._added: list[Waiting] = []
        self._waiting: deque[Waiting] = deque()
        self._lock = Lock()
        self._open: set[int] = set()  # tickets of requests that have not ended
        self.cancelled: set[int] = set()
        """Tickets that an engine has under way; it drops them before its next step."""

    def __bool__(self) -> bool:
        return bool(self._added or self._waiting)

    def add(self, request: Request) -> int:
        """Lets a request wait; returns its ticket, the only one of this number."""
        with self._lock:
            ticket = next(self._tickets)
            self._open.add(ticket)
            self._added.append(Waiting(ticket, request))
        return ticket

    def cancel(self, ticket: int) -> None:
        """Forgets a request that waits or is under way. For a ticket that has ended it does nothing."""
        with self._lock:
            if ticket not in self._open:
                return
            count = len(self._added) + len(self._waiting)
            self._added = [waiting for waiting in self._added if waiting.ticket != ticket]
            self._waiting = deque(waiting for waiting in self._waiting if waiting.ticket != ticket)
            if len(self._added) + len(self._waiting) == count:
                self.cancelled.add(ticket)
            else:
                self._open.discard(ticket)

    def close(self, tickets: Iterable[int]) -> None:
        """Notes that these requests have ended, cancelled or not."""
        with self._lock:
            self._open.difference_update(tickets)
            self.cancelled.difference_update(tickets)

    def take(self, rows: int, longest: int, batch_tokens: int) -> list[Waiting]:
        """Those that enter beside so many `rows`, the longest of which has so many tokens: rows times the longest stay
        within `batch_tokens`, but where there is no row, one request always enters.
        """
        with self._lock:
            self._waiting.extend(sorted(self._added, key=lambda waiting: -waiting.request.room))
            self._added.clear()
            share = math.ceil(len(self._waiting) / max(1, self._shares))
            self._shares -= 1
            entering: list[Waiting] = []
            while self._waiting and len(entering) < share:
                request = self._waiting[0].request
                longest, rows = max(longest, request.room), rows + request.beam_size
                if rows * longest > batch_tokens and rows > request.beam_size:
                    break
                entering.append(self._waiting.popleft())
            return entering


class Result(NamedTuple):
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


class Grown(NamedTuple):
    """The tokens that every possible result of a request under way begins with."""

    tokens: tuple[int, ...]


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
        inbox: Inbox | None = None,
    ) -> None:
        """Engines that share an inbox take from it what each has room for."""
        self.stepper, self.start, self.end = stepper, start, end
        self.batch_tokens, self.observer = batch_tokens, observer
        self.inbox = inbox if inbox is not None else Inbox()
        self._beams: list[Beam] = []  # under way, by kind; their rows follow one another
        self._batches: list[BeamBatch] = []
        self._processors: list[tuple[LogitsProcessor, Int[np.ndarray, "Q"], float]] = []  # for these rows, until a step
        self._outputs, self._now = Outputs(), 0

    @property
    def busy(self) -> bool:
        """Whether any request waits or is under way."""
        return bool(self.inbox or self._beams)

    @property
    def under_way(self) -> list[int]:
        """Tickets of the requests that hold rows."""
        return [beam.ticket for beam in self._beams]

    def admit(self, request: Request) -> int:
        """Takes in a request, which enters at a later `step`, in the order of the `Inbox`; returns its ticket."""
        return self.inbox.add(request)

    def cancel(self, ticket: int) -> None:
        """Forgets a request and frees its rows at once. For a finished ticket it does nothing."""
        self.inbox.cancel(ticket)
        self._drop_cancelled()

    def agreed(self, ticket: int, after: int = 0) -> tuple[int, ...]:
        """The tokens that every possible result of a request begins with, those from the place `after` on; none while
        it waits.
        """
        for batch in self._batches:
            for b, beam in enumerate(batch.beams):
                if beam.ticket == ticket:
                    return batch.agreed(b, self._outputs, after)
        return ()

    def run(self) -> Iterator[Result]:
        """Steps until no request is left; yields how each ended, in that order."""
        while self.busy:
            yield from self.step()

    def watch(self, ticket: int) -> Iterator[Result | Grown]:
        """The same, and after each step how far the request with this ticket has grown."""
        while self.busy:
            yield from self.step()
            if tokens := self.agreed(ticket):
                yield Grown(tokens)

    def step(self) -> list[Result]:
        """Writes one more token in every row; returns the requests that ended with it.

        A request whose log-probabilities are NaN fails and leaves, and so does one that the stepper cannot admit; the
        others go on. An error at the step itself ends every request under way, but none that waits.

        Raises:
            Interrupted: a signal asked to stop, whose handler raises this.
        """
        if self.inbox.cancelled:
            self._drop_cancelled()
        results = self._enter()
        if self._beams:
            try:
                results += self._advance()
            except Interrupted:
                raise
            except Exception as error:
                results += [Result(ticket, error) for ticket in self.under_way]
                self._keep(lambda _: False)
        if results:
            self.inbox.close(result.ticket for result in results)
        return results

    def _drop_cancelled(self) -> None:
        dropped = self.inbox.cancelled.intersection(self.under_way)
        if dropped:
            self._keep(lambda beam: beam.ticket not in dropped)
            self.inbox.close(dropped)

    def _enter(self) -> list[Result]:
        """Lets waiting requests in, once enough of the room is free; returns those that the stepper cannot admit."""
        if not self.inbox:
            return []
        longest = max((beam.request.room for beam in self._beams), default=0)
        rows = len(self._outputs)
        if rows * longest > self.batch_tokens * _REFILL:
            return []
        taken = self.inbox.take(rows, longest, self.batch_tokens)
        return self._admit([Beam(request, self.end, ticket) for ticket, request in taken])

    def _admit(self, entering: list[Beam]) -> list[Result]:
        """Gives new requests to the stepper, and rows to those that it admits. Where several fail together, each is
        tried alone, so that none fails by another. Returns those that failed.
        """
        if not entering:
            return []
        try:
            self.stepper.admit([beam.request.source for beam in entering])
        except Interrupted:
            raise
        except Exception as error:
            self.stepper.select(np.arange(len(self._outputs)))  # it may have taken some of them in
            if len(entering) == 1:
                return [Result(entering[0].ticket, error)]
            return [failed for beam in entering for failed in self._admit([beam])]
        self._give_rows(entering)
        return []

    def _give_rows(self, entering: list[Beam]) -> None:
        """Gives each new request, which the stepper has admitted to one row, as many rows as its beam is wide. The
        first holds the empty hypothesis, the others are empty places. Then all rows are put in order by kind.
        """
        row = len(self._outputs)
        self._outputs.enter([self.start if beam.request.start is None else beam.request.start for beam in entering])
        holders = [(beam, list(rows)) for beam, rows in self._rows()]
        for beam in entering:
            holders.append((beam, [row] * beam.request.beam_size))
            row += 1
        holders.sort(key=lambda holder: holder[0].request.kind)

        order = np.array([row for _, rows in holders for row in rows])
        if not np.array_equal(order, np.arange(len(self._outputs))):
            self.stepper.select(order)
            self._outputs.select(order)
            is_copy = order[1:] == order[:-1]
            self._outputs.totals[1:][is_copy] = -np.inf
        self._go_on_with([beam for beam, _ in holders])

    def _advance(self) -> list[Result]:
        outputs = self._outputs
        step = self.stepper.advance(outputs.last)
        for processor, rows, until in self._processors:
            if self._now < until:
                processor(step, rows, outputs)
        self._now += 1
        if self._is_usual:
            batch = self._batches[0]
            parent = step.write_next(outputs, batch.limits, self.end)
            if parent is not None:
                return self._leave(batch.stopped(outputs), parent, moves=batch.width > 1)
        return self._write(step)

    @property
    def _is_usual(self) -> bool:
        """Whether the step may be taken all at once: nobody watches, and all requests are of one kind."""
        return self.observer is None and len(self._batches) == 1 and self._batches[0].is_usual

    def _write(self, step: Step) -> list[Result]:
        """Continues every request, and keeps the rows of those that go on."""
        outputs = self._outputs
        parts = [batch.advance(outputs, best, self.observer) for batch, best in self._best(step)]
        following = parts[0] if len(parts) == 1 else Next(*map(np.concatenate, zip(*parts, strict=True)))
        moves = any(batch.width > 1 for batch in self._batches)
        if moves:
            outputs.select(following.parent)
        outputs.append(following.token, following.log_prob, following.total)
        outcomes = {ticket: outcome for batch in self._batches for ticket, outcome in batch.ended(outputs).items()}
        return self._leave(outcomes, following.parent, moves)

    def _best(self, step: Step) -> Iterator[tuple[BeamBatch, Best]]:
        """What the rows of each batch may go on with: the best tokens for a search, the one drawn for a sample."""
        searching = [batch.candidates for batch in self._batches if not batch.draws]
        best = step.best(max(searching)) if searching else None
        for batch in self._batches:
            if batch.draws or best is None:
                yield batch, batch.drawn(step, self._outputs)
            elif len(self._batches) == 1:
                yield batch, best
            else:
                yield batch, Best(*(part[batch.rows, : batch.candidates] for part in best))

    def _leave(self, outcomes: dict[int, Outcome], parent: Int[np.ndarray, "R"], moves: bool) -> list[Result]:
        """Lets the requests go that ended so. `parent` says from which row of the stepper each row of the outputs goes
        on: from another than its own only if the step `moves` rows.
        """
        if len(outcomes) == len(self._beams):
            self._keep(lambda _: False)
        elif outcomes:
            self._keep(lambda beam: beam.ticket not in outcomes, parent)
        elif moves:
            self.stepper.select(parent)
        return [Result(ticket, outcome) for ticket, outcome in outcomes.items()]

    def _rows(self) -> Iterator[tuple[Beam, range]]:
        """Each request under way and its rows."""
        first = 0
        for beam in self._beams:
            yield beam, range(first, first + beam.request.beam_size)
            first += beam.request.beam_size

    def _keep(self, stays: Callable[[Beam], bool], parent: Int[np.ndarray, "R"] | None = None) -> None:
        """Goes on with the requests that stay, and drops the rows of the others. `parent` says from which row of the
        stepper each row goes on; None: from its own.
        """
        rows = np.array([row for beam, rows in self._rows() if stays(beam) for row in rows], np.int64)
        self.stepper.select(rows if parent is None else parent[rows])
        self._outputs.select(rows)
        self._go_on_with([beam for beam in self._beams if stays(beam)])

    def _go_on_with(self, beams: list[Beam]) -> None:
        """Makes these the requests under way, by kind, and notes which rows each processor is for, and how long."""
        self._beams, self._batches, self._processors = beams, [], []
        first = 0
        for _, alike in itertools.groupby(beams, key=lambda beam: beam.request.kind):
            self._batches.append(BeamBatch(list(alike), first))
            first = self._batches[-1].rows.stop
        rows_with: dict[tuple[LogitsProcessor, ...], list[int]] = {}  # most requests share their processors
        for beam, rows in self._rows():
            rows_with.setdefault(beam.request.processors, []).extend(rows)
        rows_of: dict[LogitsProcessor, list[int]] = {}
        for processors, rows in rows_with.items():
            for processor in processors:
                rows_of.setdefault(processor, []).extend(rows)
        for processor, numbers in rows_of.items():
            rows = np.array(numbers, np.int64)
            left = processor.until - int(self._outputs.lengths[rows].min())
            if left > 0:
                self._processors.append((processor, rows, self._now + left))


class Search(Protocol):
    """What answers requests: engines of one's own, a `WorkerPool`, or an engine that is shared with others."""

    def run(self, requests: Sequence[Request]) -> Generator[Result]:
        """How each request ended, as they end; a ticket is the request's place in `requests`."""
        ...

    def watch(self, requests: Sequence[Request]) -> Generator[Result | Grown]:
        """The same, and after each step how far the first request has grown."""
        ...


class WorkerPool:
    """Searches for many requests by engines that share one inbox, each in a thread of its own. What a request finds
    depends neither on the others nor on the engine that takes it, so a pool finds what one engine finds.

    Threads are enough where a stepper computes outside of Python: only bookkeeping waits for its turn.
    """

    def __init__(self, workers: int, engine: Callable[[Inbox], Engine]) -> None:
        """`engine` makes an engine that takes from this inbox."""
        self.inbox = Inbox(workers)
        self._engines = [engine(self.inbox) for _ in range(workers)]

    def run(self, requests: Sequence[Request]) -> Generator[Result]:
        """How each request ended, as they end; a ticket is the request's place in `requests`.

        Who stops asking stops the engines. What goes wrong outside of their steps is raised here, once they have
        stopped.
        """
        tickets = [self.inbox.add(request) for request in requests]
        assert tickets == list(range(len(requests))), "a pool runs once"
        if len(self._engines) == 1:
            yield from self._engines[0].run()
            return
        results: SimpleQueue[Result | Exception | None] = SimpleQueue()
        stop = Event()

        def work(engine: Engine) -> None:
            try:
                while engine.busy and not stop.is_set():
                    for result in engine.step():
                        results.put(result)
            except Exception as error:
                results.put(error)
            finally:
                results.put(None)

        threads = [Thread(target=work, args=(engine,), daemon=True) for engine in self._engines]
        for thread in threads:
            thread.start()
        try:
            working = len(threads)
            while working:
                result = results.get()
                if isinstance(result, Exception):
                    raise result
                if result is None:
                    working -= 1
                else:
                    yield result
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def watch(self, requests: Sequence[Request]) -> Generator[Result | Grown]:
        """The same as `run` by the first engine alone, and how far the first request has grown after each step."""
        for request in requests:
            self.inbox.add(request)
        yield from self._engines[0].watch(0)
