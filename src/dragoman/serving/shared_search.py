"""One search that many clients share: a thread owns the engine, and each client's requests enter between two steps.

    search = SharedSearch(make_engine)
    translator.sharing(JobSearch(search, Job(seconds=30))).translate(texts)  # in the client's own thread
    search.stop()

What a request finds does not depend on the others: that is the engine's promise. Here it is decided who enters next.
"""

import logging
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

SHARE, SHARE_OF_DOCUMENT = 0.25, 0.05
"""The part of the engine's room that one client may hold, so that it does not slow down the steps of others. A document
stays long, so it holds less.
"""
ENTERING = 0.25
"""The part of that room that may enter before one step, so that reading new sources does not stall running rows."""


class Job:
    """What one client waits for. It ends when all is found, when it is cancelled, or after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self.share = SHARE
        """The part of the engine's room that it may hold."""
        self.events: SimpleQueue[tuple[int, Result | StablePrefix] | Refused] = SimpleQueue()
        """What became of its requests: the place of each and the event; or why none will be answered."""
        self.refused: Refused | None = None

    def cancel(self, why: Refused | None = None) -> None:
        """Ends the job, from any thread; it then raises this error, or that its client has gone."""
        self.refused = self.refused or why or Refused(499, "the client closed the connection")
        self.events.put(self.refused)

    def check(self) -> None:
        """Raises the error by which the job has ended, if it has."""
        if self.refused is None and time.monotonic() > self.deadline:
            self.refused = Refused(503, "this took longer than a request may take; send less at a time", 1)
        if self.refused is not None:
            raise self.refused


class _Asked(NamedTuple):
    """A request that has not ended: its job, and its place among those of the job."""

    job: Job
    request: Request
    place: int


@dataclass
class _Line:
    """The requests of one job that wait, and the room that those under way hold."""

    waiting: deque[Waiting] = field(default_factory=deque)
    held: dict[int, int] = field(default_factory=dict)

    @property
    def room(self) -> int:
        return sum(self.held.values())


class FairInbox(Inbox):
    """An inbox in which every job has a line of its own. The job that holds the least room enters next, so a short
    request overtakes the rest of a document; of equals, the one that has waited longest.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[Job, _Line] = {}
        self.entered: list[int] = []
        """What was taken last."""

    def __bool__(self) -> bool:
        return any(line.waiting for line in list(self._lines.values()))

    def add(self, request: Request, job: Job) -> int:
        """Lets a request of this job wait; returns its ticket."""
        with self._lock:
            ticket = next(self._tickets)
            self._lines.setdefault(job, _Line()).waiting.append(Waiting(ticket, request))
        return ticket

    def withdraw(self, job: Job) -> None:
        """Cancels every request of a job."""
        with self._lock:
            line = self._lines.get(job, _Line())
            self.cancelled.update(line.held)
            line.waiting.clear()
            self._drop_empty_lines()

    def close(self, tickets: Iterable[int]) -> None:
        with self._lock:
            for ticket in tickets:
                self.cancelled.discard(ticket)
                for line in self._lines.values():
                    line.held.pop(ticket, None)
            self._drop_empty_lines()

    def _drop_empty_lines(self) -> None:
        self._lines = {job: line for job, line in self._lines.items() if line.waiting or line.held}

    def take(self, rows: int, longest: int, batch_tokens: int) -> list[Waiting]:
        entering: list[Waiting] = []
        entered = 0
        with self._lock:
            while lines := [
                line for job, line in self._lines.items() if line.waiting and _may_enter(line, job.share * batch_tokens)
            ]:
                line = min(lines, key=lambda line: line.room)
                ticket, request = line.waiting[0]
                rows, longest = rows + request.beam_size, max(longest, request.row_tokens)
                entered += _room(request)
                if rows > request.beam_size and rows * longest > batch_tokens:
                    break
                if entering and entered > ENTERING * batch_tokens:
                    break
                line.held[ticket] = _room(request)
                entering.append(line.waiting.popleft())
        self.entered = [ticket for ticket, _ in entering]
        return entering


def _room(request: Request) -> int:
    return request.beam_size * request.row_tokens


def _may_enter(line: _Line, most: float) -> bool:
    return not line.held or line.room + _room(line.waiting[0].request) <= most


class SharedSearch:
    """A thread that owns an engine, and steps while any request waits or is under way.

    An engine that breaks is replaced. Each request that it had under way is searched for again, alone, so that only
    what breaks an engine by itself fails.
    """

    def __init__(self, engine: Callable[[Inbox], Engine]) -> None:
        """`engine` makes an engine that takes its requests from this inbox."""
        self._inbox, self._make = FairInbox(), engine
        self._asked: dict[int, _Asked] = {}
        self._watched: set[int] = set()
        self._lock, self._stopped = Lock(), False
        self._changed, self._changes = Condition(), 0  # of the inbox: more waits, or there is more room
        self.tokens, self.replaced = 0, 0
        """Tokens written so far, and engines that broke."""
        self._thread = Thread(target=self._work, name="search", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Requests that have not ended."""
        return len(self._asked)

    def events(self, requests: Sequence[Request], job: Job, watched: bool) -> Generator[Result | StablePrefix]:
        """How each request ended, as they end; a ticket is the request's place in `requests`. If `watched`, also how
        far the first has grown, after each step. Who stops asking cancels the rest.

        Raises:
            Refused: the job was cancelled, took too long, or the server stops.
        """
        job.events = SimpleQueue()  # a job may run several times, one after another
        try:
            with self._lock:
                if self._stopped:
                    raise stopping()
                for place, request in enumerate(requests):
                    ticket = self._inbox.add(request, job)
                    self._asked[ticket] = _Asked(job, request, place)
                    if watched and place == 0:
                        self._watched.add(ticket)
            self._wake()
            left = len(requests)
            while left:
                job.check()
                try:
                    event = job.events.get(timeout=max(0.0, job.deadline - time.monotonic()))
                except Empty:
                    continue
                if isinstance(event, Refused):
                    raise event
                place, happened = event
                if isinstance(happened, Result):
                    left -= 1
                    happened = Result(place, happened.outcome)
                yield happened
        finally:
            self._cancel(job)

    def stop(self) -> None:
        """Ends the thread. What has not ended is refused."""
        with self._lock:
            self._stopped = True
            jobs = {asked.job for asked in self._asked.values()}
        for job in jobs:
            job.cancel(stopping())
        self._wake()
        self._thread.join()

    def _cancel(self, job: Job) -> None:
        with self._lock:
            self._asked = {ticket: asked for ticket, asked in self._asked.items() if asked.job is not job}
            self._watched.intersection_update(self._asked)
            self._inbox.withdraw(job)
        self._wake()

    def _wake(self) -> None:
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    def _work(self) -> None:
        engine = self._make(self._inbox)
        while not self._stopped:
            seen, under_way = self._changes, engine.active
            try:
                results = engine.step()
                broke = None if engine.active else next(filter(None, map(_break, results)), None)
            except Exception as error:
                lost = {*under_way, *engine.active, *self._inbox.entered}
                results, broke = [Result(ticket, error) for ticket in lost], error
                self._inbox.close(lost)
            self.tokens += len(under_way)
            if broke is not None:
                log.error("the engine of a search broke", exc_info=broke)
                self.replaced += 1
                engine = self._make(self._inbox)
                results = [*map(self._again, results)]
            self._hand_out(engine, results)
            if results:
                self._wake()
            elif not (under_way or engine.active):
                with self._changed:
                    self._changed.wait_for(lambda seen=seen: self._changes != seen)

    def _again(self, result: Result) -> Result:
        """What is found for a request alone, if an engine broke under it."""
        asked = self._asked.get(result.ticket)
        if asked is None or _break(result) is None or self._stopped:
            return result
        try:
            engine = self._make(Inbox())
            engine.admit(asked.request)
            return Result(result.ticket, next(engine.run()).outcome)
        except Exception as error:
            return Result(result.ticket, error)

    def _hand_out(self, engine: Engine, results: Sequence[Result]) -> None:
        with self._lock:
            for result in results:
                self._watched.discard(result.ticket)
                if asked := self._asked.pop(result.ticket, None):
                    asked.job.events.put((asked.place, result))
            watched = [(ticket, self._asked[ticket]) for ticket in self._watched]
        for ticket, asked in watched:
            if tokens := engine.stable_prefix(ticket):
                asked.job.events.put((asked.place, StablePrefix(tokens)))


class JobSearch(NamedTuple):
    """A shared search as one job sees it: a `Searcher`.

    Raises:
        Refused: the job was cancelled, took too long, or the server stops.
    """

    shared: SharedSearch
    job: Job

    def run(self, requests: Sequence[Request]) -> Generator[Result]:
        """How each request ended, as they end; a ticket is the request's place in `requests`."""
        with closing(self.shared.events(requests, self.job, watched=False)) as events:
            yield from (event for event in events if isinstance(event, Result))

    def watch(self, requests: Sequence[Request]) -> Generator[Result | StablePrefix]:
        """The same, and after each step how far the first request has grown."""
        return self.shared.events(requests, self.job, watched=True)


def stopping() -> Refused:
    """The answer of a server that stops."""
    return Refused(503, "the server is stopping; try again in a moment", 5)


def _break(result: Result) -> Exception | None:
    """Why an engine broke under a request. An error of ours says instead what is wrong with the request."""
    outcome = result.outcome
    return outcome if isinstance(outcome, Exception) and not isinstance(outcome, Error) else None
