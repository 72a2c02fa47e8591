"""Search shared by many clients: one thread owns the engine, and requests enter between its steps.

    search = SharedSearch(make_engine)
    translator.sharing(JobSearch(search, Job(seconds=30))).translate(texts)  # in the client's own thread
    search.stop()

The engine guarantees that the result of a request does not depend on other requests. This module decides which request
enters next.
"""

import heapq
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Condition, Lock, Thread
from typing import NamedTuple

from dragoman.decoding.engine import Engine, Inbox, Result, StablePrefix, Waiting
from dragoman.decoding.request import Request
from dragoman.errors import Error
from dragoman.serving.limits import Refused

log = logging.getLogger(__name__)

SHARE, SHARE_BESIDE_OTHERS = 0.25, 0.02
"""Maximum share of the engine's capacity that one client may hold, so that it does not slow down the steps of others. A
document takes long, so its share is smaller while there are other requests.
"""
OTHERS_SECONDS = 1.0
"""Time after a request in which the share of documents stays small, because its client may send another."""
ENTERING = 0.25
"""Maximum share of the capacity that may enter before a step, so that encoding does not stall active rows."""


class Job:
    """Work of one client. It ends when all results are there, when it is cancelled, or at its deadline."""

    def __init__(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self.is_document = False
        """True if it holds little of the capacity of the engine while there are other requests."""
        self.events: SimpleQueue[Sequence[Result | StablePrefix] | Refused] = SimpleQueue()
        """Events of its requests after a step, with their indices as tickets; or the error by which the job ends."""
        self.refused: Refused | None = None
        self.characters = 0
        """Characters that were charged for it."""
        self.charge: Callable[[int], None] = lambda characters: None
        """Count the characters of its texts before they are translated; may raise `Refused`."""

    def cancel(self, reason: Refused | None = None) -> None:
        """End the job, from any thread, with this error; by default, that the client has disconnected."""
        self.refused = self.refused or reason or Refused(499, "the client closed the connection")
        self.events.put(self.refused)

    def check(self) -> None:
        """Raise the error by which the job has ended, if it has."""
        if self.refused is None and time.monotonic() > self.deadline:
            self.refused = Refused(503, "this took longer than a request may take; send less at a time")
        if self.refused is not None:
            raise self.refused


class _PendingRequest(NamedTuple):
    """Unfinished request with its job, and its index among the requests of the job."""

    job: Job
    request: Request
    index: int


@dataclass(eq=False)
class _JobQueue:
    """Waiting requests of one job, and the capacity that its active requests hold, by ticket and in all."""

    job: Job
    waiting: deque[Waiting] = field(default_factory=deque)
    held: dict[int, int] = field(default_factory=dict)
    capacity: int = 0

    def may_enter(self, limit: float) -> bool:
        """Return True if the next waiting request is within the limit of capacity; one of a job may always enter."""
        if not self.waiting or not self.held:
            return bool(self.waiting)
        return self.capacity + _capacity(self.waiting[0].request) <= limit

    def enter(self) -> Waiting:
        """Make the next waiting request active."""
        ticket, request = waiting = self.waiting.popleft()
        self.held[ticket] = _capacity(request)
        self.capacity += self.held[ticket]
        return waiting


class FairInbox(Inbox):
    """Inbox with a queue for every job.

    The job that holds the least capacity enters next, so a short request overtakes the rest of a document; among
    equals, the job that has waited longest.
    """

    def __init__(self) -> None:
        super().__init__()
        self._queues: dict[Job, _JobQueue] = {}
        self._holders: dict[int, _JobQueue] = {}
        """The queue of each active ticket."""
        self.entered: list[int] = []
        """Tickets of the last call of `take`."""
        self._last_short = -math.inf  # when a request that is no document's was added last

    def __bool__(self) -> bool:
        return any(queue.waiting for queue in list(self._queues.values()))

    def add(self, request: Request, job: Job) -> int:
        """Add a request of this job to its queue; return its ticket."""
        with self._lock:
            ticket = next(self._tickets)
            if job not in self._queues:
                self._queues[job] = _JobQueue(job)
            if not job.is_document:
                self._last_short = time.monotonic()
            self._queues[job].waiting.append(Waiting(ticket, request))
        return ticket

    def withdraw(self, job: Job) -> None:
        """Cancel every request of a job."""
        with self._lock:
            if queue := self._queues.get(job):
                self.cancelled.update(queue.held)
                queue.waiting.clear()
                self._drop_if_empty(queue)

    def close(self, tickets: Iterable[int]) -> None:
        with self._lock:
            for ticket in tickets:
                self.cancelled.discard(ticket)
                if queue := self._holders.pop(ticket, None):
                    queue.capacity -= queue.held.pop(ticket)
                    self._drop_if_empty(queue)

    def _drop_if_empty(self, queue: _JobQueue) -> None:
        if not queue.waiting and not queue.held:
            del self._queues[queue.job]

    def take(self, rows: int, longest: int, batch_tokens: int) -> list[Waiting]:
        entering: list[Waiting] = []
        capacity = 0
        with self._lock:
            is_mixed = time.monotonic() < self._last_short + OTHERS_SECONDS or not all(
                job.is_document for job in self._queues
            )
            shares = SHARE, SHARE_BESIDE_OTHERS if is_mixed else SHARE
            queues = [
                (queue.capacity, place, queue)
                for place, queue in enumerate(self._queues.values())
                if queue.may_enter(shares[queue.job.is_document] * batch_tokens)
            ]
            heapq.heapify(queues)
            while queues:
                _, place, queue = heapq.heappop(queues)
                request = queue.waiting[0].request
                rows, longest = rows + request.beam_size, max(longest, request.row_tokens)
                capacity += _capacity(request)
                if rows > request.beam_size and rows * longest > batch_tokens:
                    break
                if entering and capacity > ENTERING * batch_tokens:
                    break
                entering.append(queue.enter())
                self._holders[entering[-1].ticket] = queue
                if queue.may_enter(shares[queue.job.is_document] * batch_tokens):
                    heapq.heappush(queues, (queue.capacity, place, queue))
        self.entered = [ticket for ticket, _ in entering]
        return entering


def _capacity(request: Request) -> int:
    return request.beam_size * request.row_tokens


class SharedSearch:
    """Search whose thread owns an engine and steps it while any request is waiting or active.

    A failed engine is replaced. Each of its active requests is searched again alone, so that only requests that break
    an engine by themselves fail.
    """

    def __init__(self, engine: Callable[[Inbox], Engine]) -> None:
        """Start the thread; `engine` builds an engine that takes its requests from an inbox."""
        self._inbox, self._make = FairInbox(), engine
        self._pending: dict[int, _PendingRequest] = {}
        self._watched: set[int] = set()
        self._lock, self._stopped = Lock(), False
        self._changed, self._changes = Condition(), 0  # of the inbox: more requests wait, or there is more capacity
        self.tokens, self.replaced = 0, 0
        """Number of tokens written so far, and of engines that failed."""
        self._thread = Thread(target=self._work, name="search", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of unfinished requests."""
        return len(self._pending)

    def events(self, requests: Sequence[Request], job: Job, watched: bool) -> Generator[Result | StablePrefix]:
        """Yield results as they finish, with indices in `requests`; if `watched`, also the first one's agreed tokens.

        Closing the generator cancels the rest. It raises `Refused` if the job is cancelled or takes too long.
        """
        job.events = SimpleQueue()  # a job may run several times, one after another
        left = len(requests)
        try:
            with self._lock:
                if self._stopped:
                    raise stopping()
                for index, request in enumerate(requests):
                    ticket = self._inbox.add(request, job)
                    self._pending[ticket] = _PendingRequest(job, request, index)
                    if watched and index == 0:
                        self._watched.add(ticket)
            self._wake()
            while left:
                job.check()
                try:
                    events = job.events.get(timeout=max(0.0, job.deadline - time.monotonic()))
                except Empty:
                    continue
                if isinstance(events, Refused):
                    raise events
                left -= sum(isinstance(event, Result) for event in events)
                yield from events
        finally:
            if left:
                self._cancel(job)

    def stop(self) -> None:
        """Stop the thread. Unfinished requests are refused."""
        with self._lock:
            self._stopped = True
            jobs = {pending.job for pending in self._pending.values()}
        for job in jobs:
            job.cancel(stopping())
        self._wake()
        self._thread.join()

    def _cancel(self, job: Job) -> None:
        with self._lock:
            self._pending = {ticket: pending for ticket, pending in self._pending.items() if pending.job is not job}
            self._watched.intersection_update(self._pending)
            self._inbox.withdraw(job)
        self._wake()

    def _wake(self) -> None:
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    def _work(self) -> None:
        engine = self._make(self._inbox)
        while not self._stopped:
            seen, under_way, before = self._changes, engine.active, engine.steps
            try:
                results = engine.step(ahead=not self._watched)
                failure = None if engine.active else next(filter(None, map(_engine_failure, results)), None)
            except Exception as error:
                lost = {*under_way, *engine.active, *self._inbox.entered}
                results, failure = [Result(ticket, error) for ticket in lost], error
                self._inbox.close(lost)
            self.tokens += len(under_way) * (engine.steps - before)
            if failure is not None:
                log.error("the engine of a search failed", exc_info=failure)
                self.replaced += 1
                engine = self._make(self._inbox)
                results = [*map(self._retry, results)]
            self._dispatch(engine, results)
            if not (results or under_way or engine.active):
                with self._changed:
                    self._changed.wait_for(lambda seen=seen: self._changes != seen)

    def _retry(self, result: Result) -> Result:
        """Search again for a request alone if its engine failed."""
        pending = self._pending.get(result.ticket)
        if pending is None or _engine_failure(result) is None or self._stopped:
            return result
        try:
            engine = self._make(Inbox())
            engine.admit(pending.request)
            return Result(result.ticket, next(engine.run()).outcome)
        except Exception as error:
            return Result(result.ticket, error)

    def _dispatch(self, engine: Engine, results: Sequence[Result]) -> None:
        """Send results, and progress of watched requests, to their jobs; a job is woken once."""
        events: dict[Job, list[Result | StablePrefix]] = {}
        with self._lock:
            for ticket, outcome in results:
                self._watched.discard(ticket)
                if pending := self._pending.pop(ticket, None):
                    events.setdefault(pending.job, []).append(Result(pending.index, outcome))
            for ticket in self._watched:
                if tokens := engine.stable_prefix(ticket):
                    events.setdefault(self._pending[ticket].job, []).append(StablePrefix(tokens))
        for job, own in events.items():
            job.events.put(own)


class JobSearch(NamedTuple):
    """`Searcher` of one job, run by the shared search. It raises `Refused` if the job is cancelled or too slow."""

    shared: SharedSearch
    job: Job

    def run(self, requests: Sequence[Request]) -> Generator[Result]:
        """Yield the result of each request as it finishes; a ticket is the request's index in `requests`."""
        with closing(self.shared.events(requests, self.job, watched=False)) as events:
            yield from (event for event in events if isinstance(event, Result))

    def watch(self, requests: Sequence[Request]) -> Generator[Result | StablePrefix]:
        """Yield results like `run`, and after each step the agreed tokens of the first request."""
        return self.shared.events(requests, self.job, watched=True)


def stopping() -> Refused:
    """Return the refusal of a server that is stopping."""
    return Refused(503, "the server is stopping; try again in a moment", 5)


def _engine_failure(result: Result) -> Exception | None:
    """Return the exception if the engine failed; an `Error` means that the request itself is invalid."""
    outcome = result.outcome
    return outcome if isinstance(outcome, Exception) and not isinstance(outcome, Error) else None
