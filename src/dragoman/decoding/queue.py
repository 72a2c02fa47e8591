"""Requests that wait. Several engines, each in a thread of its own, may take from one queue."""

import math
from collections import deque
from itertools import count
from threading import Lock

from dragoman.decoding.company import Search
from dragoman.decoding.request import Request


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
