"""Search by greedy decoding, beam search or sampling over any `Stepper`; requests can join while others are active.

    engine = Engine(stepper, start=2, end=3)
    ticket = engine.admit(Request([2, 17, 25, 3], limit=20, beam_size=4))
    while engine.busy:
        for result in engine.step(): ...

A request leaves as soon as it is done, and waiting requests take its place. The result of a request does not depend on
other requests, even if they fail: it equals the result of `beam` in plain Python. Only an error of the step itself ends
all active requests. An engine belongs to one thread; other threads use its `Inbox`, which the engines of a `WorkerPool`
share.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import NamedTuple, Protocol

import numpy as np

from dragoman.decoding.batched_beam import BeamBatch, BeamStep, Expansion, Outcome
from dragoman.decoding.beam import Beam
from dragoman.decoding.hypothesis import Hypothesis, Outputs, SearchObserver
from dragoman.decoding.processors import Ban, LogitsProcessor, NotBlank, RowRules, RulesOfAllRows, rules_of_rows
from dragoman.decoding.request import Request
from dragoman.decoding.steppers import Stepper, StepScores, TopTokens
from dragoman.errors import Interrupted
from dragoman.shapes import Int

_REFILL = 0.75
"""Waiting requests enter when at most this share of the capacity is used: encoding several at once is faster."""

_STEPS_AHEAD, _FEW_ROWS = 8, 64
"""Steps that are taken without Python, and the most rows for which its share of a step is worth saving."""
_WIDEST_AHEAD = 16
"""The widest beam that a device searches ahead; every row of a beam looks at the keys of all its rows."""


class Waiting(NamedTuple):
    """A request that no engine has taken yet."""

    ticket: int
    request: Request


class Inbox:
    """A queue of requests for any number of engines. Any thread can add and cancel requests.

    Requests that are added between two calls of `take` queue in the order of their `row_tokens`, largest first, after
    all earlier ones. The first `engines` calls of `take` return at most an equal share, so that the first engine does
    not take all of a few requests.
    """

    def __init__(self, engines: int = 1) -> None:
        self._shares, self._tickets = engines, itertools.count()
        self._added: list[Waiting] = []
        self._waiting: deque[Waiting] = deque()
        self._lock = Lock()
        self._open: set[int] = set()  # tickets of requests that have not ended
        self.cancelled: set[int] = set()
        """Tickets of active requests that their engine will drop before its next step."""

    def __bool__(self) -> bool:
        return bool(self._added or self._waiting)

    def add(self, request: Request) -> int:
        """Add a request to the queue; return its unique ticket."""
        with self._lock:
            ticket = next(self._tickets)
            self._open.add(ticket)
            self._added.append(Waiting(ticket, request))
        return ticket

    def cancel(self, ticket: int) -> None:
        """Cancel a waiting or active request; do nothing if it has finished."""
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
        """Mark these requests as finished, cancelled or not."""
        with self._lock:
            self._open.difference_update(tickets)
            self.cancelled.difference_update(tickets)

    def take(self, rows: int, longest: int, batch_tokens: int) -> list[Waiting]:
        """Take requests to join `rows` active rows of at most `longest` tokens, so that rows times longest stays within
        `batch_tokens`. Without active rows, one request is always taken.
        """
        with self._lock:
            self._waiting.extend(sorted(self._added, key=lambda waiting: -waiting.request.row_tokens))
            self._added.clear()
            share = math.ceil(len(self._waiting) / max(1, self._shares))
            self._shares -= 1
            entering: list[Waiting] = []
            while self._waiting and len(entering) < share:
                request = self._waiting[0].request
                longest, rows = max(longest, request.row_tokens), rows + request.beam_size
                if rows * longest > batch_tokens and rows > request.beam_size:
                    break
                entering.append(self._waiting.popleft())
            return entering


class Result(NamedTuple):
    """The outcome of the request with this ticket."""

    ticket: int
    outcome: Outcome

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """The hypotheses of the request, best first; raises the error of a failed one, such as `DecodeError`."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class StablePrefix(NamedTuple):
    """The common prefix of all possible results of an active request."""

    tokens: tuple[int, ...]


class Engine:
    """A search for any number of requests at once, one token per step.

    A request holds `beam_size` rows. Requests of the same kind hold consecutive rows, so that a kind is expanded as one
    array. `start` is the first input of the decoder, and `end` the token that ends a hypothesis. The number of active
    rows times the largest `row_tokens`, which is at least that of the engine, stays within `batch_tokens`, but a single
    request is always admitted.
    """

    def __init__(
        self,
        stepper: Stepper,
        *,
        start: int,
        end: int,
        batch_tokens: int = 4096,
        row_tokens: int = 0,
        observer: SearchObserver | None = None,
        inbox: Inbox | None = None,
    ) -> None:
        """Create an engine; engines that share an inbox take requests from it according to their capacity."""
        self.stepper, self.start, self.end = stepper, start, end
        self.batch_tokens, self.row_tokens, self.observer = batch_tokens, row_tokens, observer
        self.inbox = inbox if inbox is not None else Inbox()
        self._beams: list[Beam] = []  # active, by kind; their rows are consecutive
        self._batches: list[BeamBatch] = []
        self._processors: list[tuple[LogitsProcessor, Int[np.ndarray, "Q"], float]] = []  # for these rows, until a step
        self._outputs, self.steps = Outputs(), 0  # steps taken

    @property
    def busy(self) -> bool:
        """True if a request is waiting or active."""
        return bool(self.inbox or self._beams)

    @property
    def active(self) -> list[int]:
        """Tickets of the active requests, which hold rows."""
        return [beam.ticket for beam in self._beams]

    def admit(self, request: Request) -> int:
        """Add a request to the inbox, from which a later `step` takes it; return its ticket."""
        return self.inbox.add(request)

    def cancel(self, ticket: int) -> None:
        """Cancel a request and free its rows immediately; do nothing if it has finished."""
        self.inbox.cancel(ticket)
        self._drop_cancelled()

    def stable_prefix(self, ticket: int, after: int = 0) -> tuple[int, ...]:
        """Return the common prefix of a request's possible results from position `after`; empty while it waits."""
        for batch in self._batches:
            for b, beam in enumerate(batch.beams):
                if beam.ticket == ticket:
                    return batch.stable_prefix(b, self._outputs, after)
        return ()

    def run(self) -> Iterator[Result]:
        """Run steps until no request is left; yield results as requests finish."""
        while self.busy:
            yield from self.step(ahead=True)

    def watch(self, ticket: int) -> Iterator[Result | StablePrefix]:
        """Run like `run`, and also yield after each step the stable prefix of the request with this ticket."""
        while self.busy:
            yield from self.step()
            if tokens := self.stable_prefix(ticket):
                yield StablePrefix(tokens)

    def step(self, ahead: bool = False) -> list[Result]:
        """Write one token in every row; return the results of requests that finished. With `ahead`, write several
        tokens if the stepper can: on a GPU, or if rows are few and no request waits. Python would take longer than the
        model.

        A request fails alone if its log-probabilities are NaN or the stepper cannot admit it. An error of the step
        itself ends all active requests, but not those that wait.

        Raises:
            Interrupted: raised by the handler of a signal.
        """
        if self.inbox.cancelled:
            self._drop_cancelled()
        results = self._admit_waiting()
        if self._beams:
            try:
                results += self._advance(ahead)
            except Interrupted:
                raise
            except Exception as error:
                results += [Result(ticket, error) for ticket in self.active]
                self._keep([False] * len(self._beams))
        if results:
            self.inbox.close(result.ticket for result in results)
        return results

    def _drop_cancelled(self) -> None:
        dropped = self.inbox.cancelled.intersection(self.active)
        if dropped:
            self._keep([beam.ticket not in dropped for beam in self._beams])
            self.inbox.close(dropped)

    def _admit_waiting(self) -> list[Result]:
        """Admit waiting requests if there is capacity; return the failures of those that the stepper cannot admit."""
        if not self.inbox:
            return []
        longest = max([self.row_tokens, *(beam.request.row_tokens for beam in self._beams)])
        rows = len(self._outputs)
        if rows * longest > self.batch_tokens * _REFILL:
            return []
        taken = self.inbox.take(rows, longest, self.batch_tokens)
        return self._admit([Beam(request, self.end, ticket) for ticket, request in taken])

    def _admit(self, entering: list[Beam]) -> list[Result]:
        """Admit requests to the stepper and assign rows; return failures. If several fail, each is tried alone."""
        if not entering:
            return []
        before = np.arange(len(self._outputs))
        try:
            self.stepper.admit([beam.request.source for beam in entering])
        except Interrupted:
            raise
        except Exception as error:
            if len(entering) == 1:
                self.stepper.select(before)
                return [Result(entering[0].ticket, error)]
        else:
            self._assign_rows(entering)
            return []
        # Outside the handler, because the error holds the tensors of the failed batch
        self.stepper.select(before)  # some may have been admitted
        return [failed for beam in entering for failed in self._admit([beam])]

    def _assign_rows(self, entering: list[Beam]) -> None:
        """Expand every new request, which the stepper has admitted to one row, to `beam_size` rows, of which the first
        holds the empty hypothesis and the rest are empty. Then order all rows by kind.
        """
        row = len(self._outputs)
        self._outputs.add_rows([self.start if beam.request.start is None else beam.request.start for beam in entering])
        holders = [(beam, list(rows)) for beam, rows in self._rows(self._beams)]
        for beam in entering:
            holders.append((beam, [row] * beam.width))
            row += 1
        holders.sort(key=lambda holder: holder[0].kind)

        order = np.array([row for _, rows in holders for row in rows])
        if not np.array_equal(order, np.arange(len(self._outputs))):
            self.stepper.select(order)
            self._outputs.select(order)
            is_copy = order[1:] == order[:-1]
            self._outputs.totals[1:][is_copy] = -np.inf
        beams = [beam for beam, _ in holders]
        self._set_active(beams, self._find_processors(beams))

    def _advance(self, ahead: bool) -> list[Result]:
        expand_ahead = getattr(self.stepper, "expand_ahead", None)  # of `DeviceStepper`
        row_rules = self._row_rules() if ahead and expand_ahead else None
        if expand_ahead and row_rules:
            batch = self._batches[0]
            left = int((batch.limits - self._outputs.lengths[:: batch.width]).max())
            steps = expand_ahead(self._outputs, batch.width, self.end, row_rules, min(_STEPS_AHEAD, left))
            return self._take_steps(steps)
        outputs, write_ahead = self._outputs, getattr(self.stepper, "write_ahead", None)  # of `NativeStepper`
        rules = self._rules() if ahead and write_ahead else None
        if write_ahead and rules:
            count, step = write_ahead(outputs, self._batches[0].limits, self.end, rules, _STEPS_AHEAD)
            self.steps += count
        else:
            step = self.stepper.advance(outputs.last)
        for processor, rows, until in self._processors:
            if self.steps < until:
                processor(step, rows, outputs)
        self.steps += 1
        if self.observer is None and len(self._batches) == 1 and self._batches[0].allows_fast_step:
            batch = self._batches[0]
            parent = step.write_next(outputs, batch.limits, self.end)
            if parent is not None:
                return self._release(batch.stopped(outputs), parent, moves=batch.width > 1)
        return self._write(step)

    def _row_rules(self) -> RowRules | None:
        """Return the rules of all rows; None if a step needs more of the host than to note what the device chose."""
        batch = self._batches[0]
        is_only = len(self._batches) == 1 and self.observer is None
        if not is_only or batch.is_sampling or batch.stops or batch.width > _WIDEST_AHEAD:
            return None
        active = [(processor, rows) for processor, rows, until in self._processors if self.steps < until]
        return rules_of_rows(active, self._outputs)

    def _take_steps(self, steps: Iterator[Expansion]) -> list[Result]:
        """Take steps that the device has computed. The rows of requests that finish in them continue there unused."""
        results: list[Result] = []
        for expansion in steps:
            fails = np.isnan(expansion.total[:, 0])
            following = self._batches[0].take(self._outputs, expansion, fails, None)
            self.steps += 1
            results += self._follow(following, np.arange(len(self._outputs)), moves=False)
            if not self._beams:
                break
        return results

    def _rules(self) -> RulesOfAllRows | None:
        """Return what processors forbid in all rows; None if more is to be done in a step than to write a token."""
        batch, is_only = self._batches[0], len(self._batches) == 1 and self.observer is None
        if len(self._outputs) > _FEW_ROWS or self.inbox or not is_only or not batch.allows_fast_step or batch.stops:
            return None
        banned, is_open = [np.empty(0, np.int64)], None
        for processor, rows, until in self._processors:
            if self.steps >= until:
                continue
            if isinstance(processor, Ban) and len(rows) == len(self._outputs):
                banned.append(processor.tokens)
            elif isinstance(processor, NotBlank) and len(rows) == len(self._outputs):
                is_open = processor.is_open
            else:
                return None
        return np.concatenate(banned), is_open

    def _write(self, step: StepScores) -> list[Result]:
        """Continue every request, and keep the rows of unfinished ones."""
        outputs = self._outputs
        parts = [batch.advance(outputs, best, self.observer) for batch, best in self._best(step)]
        following = parts[0] if len(parts) == 1 else BeamStep(*map(np.concatenate, zip(*parts, strict=True)))
        return self._follow(following, following.parent, moves=any(batch.width > 1 for batch in self._batches))

    def _follow(self, step: BeamStep, parent: Int[np.ndarray, "R"], moves: bool) -> list[Result]:
        """Append a step to the outputs, and keep the rows of unfinished requests: see `_release`."""
        outputs = self._outputs
        if any(batch.width > 1 for batch in self._batches):
            outputs.select(step.parent)
        outputs.append(step.token, step.log_prob, step.total)
        outcomes = {ticket: outcome for batch in self._batches for ticket, outcome in batch.finished(outputs).items()}
        return self._release(outcomes, parent, moves)

    def _best(self, step: StepScores) -> Iterator[tuple[BeamBatch, TopTokens]]:
        """Yield the candidates of each batch: the best tokens for a search, the sampled token for a sample."""
        searching = [batch.candidates for batch in self._batches if not batch.is_sampling]
        best = step.best(max(searching)) if searching else None
        for batch in self._batches:
            if batch.is_sampling or best is None:
                yield batch, batch.sample(step, self._outputs)
            elif len(self._batches) == 1:
                yield batch, best
            else:
                yield batch, TopTokens(*(part[batch.rows, : batch.candidates] for part in best))

    def _release(self, outcomes: dict[int, Outcome], parent: Int[np.ndarray, "R"], moves: bool) -> list[Result]:
        """Remove the finished requests and return their results. `parent` holds the stepper's row for every row of the
        outputs, which differs from the row itself only if the step `moves` rows.
        """
        if len(outcomes) == len(self._beams):
            self._keep([False] * len(self._beams))
        elif outcomes:
            self._keep([beam.ticket not in outcomes for beam in self._beams], parent)
        elif moves:
            self.stepper.select(parent)
        return [Result(ticket, outcome) for ticket, outcome in outcomes.items()]

    @staticmethod
    def _rows(beams: Iterable[Beam]) -> Iterator[tuple[Beam, range]]:
        """Yield every request and its rows."""
        first = 0
        for beam in beams:
            yield beam, range(first, first + beam.width)
            first += beam.width

    def _keep(self, stays: Sequence[bool], parent: Int[np.ndarray, "R"] | None = None) -> None:
        """Keep the requests that stay. `parent` holds the stepper's row for every row; None if they are the same."""
        is_kept = np.repeat(stays, [beam.width for beam in self._beams])
        kept, place = is_kept.nonzero()[0], is_kept.cumsum() - 1
        self.stepper.select(kept if parent is None else parent[kept])
        self._outputs.select(kept)
        rows_of = {processor: place[rows[is_kept[rows]]] for processor, rows, _ in self._processors}
        self._set_active([*itertools.compress(self._beams, stays)], rows_of)

    def _find_processors(self, beams: list[Beam]) -> dict[LogitsProcessor, Int[np.ndarray, "Q"]]:
        """Return the rows of every processor of these requests."""
        rows_with: dict[tuple[LogitsProcessor, ...], list[int]] = {}  # most requests share their processors
        for beam, rows in self._rows(beams):
            rows_with.setdefault(beam.request.processors, []).extend(rows)
        rows_of: dict[LogitsProcessor, list[int]] = {}
        for processors, rows in rows_with.items():
            for processor in processors:
                rows_of.setdefault(processor, []).extend(rows)
        return {processor: np.array(rows, np.int64) for processor, rows in rows_of.items()}

    def _set_active(self, beams: list[Beam], rows_of: Mapping[LogitsProcessor, Int[np.ndarray, "Q"]]) -> None:
        """Set the active requests, ordered by kind, and the rows and the last step of every processor."""
        self._beams, self._batches, self._processors = beams, [], []
        first = 0
        for _, same_kind in itertools.groupby(beams, key=lambda beam: beam.kind):
            self._batches.append(BeamBatch(list(same_kind), first))
            first = self._batches[-1].rows.stop
        for processor, rows in rows_of.items():
            left = processor.until - int(self._outputs.lengths[rows].min()) if len(rows) else 0
            if left > 0:
                self._processors.append((processor, rows, self.steps + left))


class Searcher(Protocol):
    """A service that answers requests: a `WorkerPool`, or an engine that several clients share."""

    def run(self, requests: Sequence[Request]) -> Generator[Result]:
        """Yield results as requests finish; a ticket is the request's index in `requests`."""
        ...

    def watch(self, requests: Sequence[Request]) -> Generator[Result | StablePrefix]:
        """Run like `run`, and also yield after each step the stable prefix of the first request."""
        ...


class WorkerPool:
    """Engines in several threads that share one inbox. The result of a request depends neither on other requests nor on
    its engine, so a pool returns the same results as one engine.

    Threads suffice if the stepper computes outside of Python: only bookkeeping needs Python's lock.
    """

    def __init__(self, workers: int, engine: Callable[[Inbox], Engine]) -> None:
        """Create the engines; `engine` returns an engine for an inbox."""
        self.inbox = Inbox(workers)
        self._engines = [engine(self.inbox) for _ in range(workers)]

    def run(self, requests: Sequence[Request]) -> Generator[Result]:
        """Yield results as requests finish, with indices in `requests`; closing the generator stops the workers."""
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
                    for result in engine.step(ahead=True):
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

    def watch(self, requests: Sequence[Request]) -> Generator[Result | StablePrefix]:
        """Run like `run`, with the first engine only, and also yield the stable prefix of the first request."""
        for request in requests:
            self.inbox.add(request)
        yield from self._engines[0].watch(0)
