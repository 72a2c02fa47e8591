"""Requests of one kind, continued side by side: what `beam` does for one request, as arrays for all of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from dragoman.decoding.beam import Beam
from dragoman.decoding.hypothesis import Candidate, Hypothesis, SearchObserver, Table
from dragoman.decoding.request import Request
from dragoman.decoding.sampling import draw
from dragoman.decoding.steppers import Best, Step
from dragoman.errors import DecodeError

Outcome = list[Hypothesis] | Exception
"""What a request found, best first; or the error that ended it."""

_NAN = "the model's outputs are NaN; its weights are damaged or its precision is too low"


class Search(Beam):
    """A request under way; its live hypotheses are rows of a `Table`."""

    def __init__(self, ticket: int, request: Request, end: int) -> None:
        super().__init__(request, end)
        self.ticket = ticket

    @property
    def kind(self) -> tuple[int, bool]:
        """What requests have in common that are continued together: their width, and whether they draw samples."""
        return self.request.beam_size, self.request.sampling is not None


class Expansion(NamedTuple):
    """The best C continuations of each of B requests, in order."""

    total: Float[np.ndarray, "B C"]
    parent: Int[np.ndarray, "B C"]  # among the request's hypotheses
    token: Int[np.ndarray, "B C"]
    log_prob: Float[np.ndarray, "B C"]  # of the token

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Token, log-probability and total."""
        return self.token, self.log_prob, self.total


class Next(NamedTuple):
    """How rows go on: from which row, by which token, with its log-probability, to which total."""

    parent: Int[np.ndarray, "R"]
    token: Int[np.ndarray, "R"]
    log_prob: Float[np.ndarray, "R"]
    total: Float[np.ndarray, "R"]


def expand(total: Float[np.ndarray, "B W"], best: Best) -> Expansion:
    """Continues W hypotheses of each of B requests by the best tokens of their rows; R = B * W.

    `total` holds their log-probabilities so far, minus infinity for an empty place. Returns as many continuations as a
    search can use: one if W is 1, else 2 W, because W of them may end.
    """
    width, each = total.shape[1], best.token.shape[1]
    if width == 1:
        return Expansion(total + best.log_prob, np.zeros_like(best.token), best.token, best.log_prob)
    candidates = (total.reshape(-1, 1) + best.log_prob).reshape(-1, width * each)
    order = np.argsort(-candidates, axis=1, kind="stable")[:, : 2 * width]
    flat = order + np.arange(len(order))[:, None] * (width * each)
    return Expansion(candidates.take(flat), order // each, best.token.take(flat), best.log_prob.take(flat))


class Company:
    """Searches of one kind, whose rows follow one another in the table, from row `first` on."""

    def __init__(self, searches: Sequence[Search], first: int) -> None:
        self.searches, self.first, self.end = searches, first, searches[0].end
        self.width, self.draws = searches[0].kind
        self.rows = slice(first, first + self.width * len(searches))
        self.limits = np.array([search.request.limit for search in searches])
        self._undecided = {b for b, each in enumerate(searches) if each.ended}
        """Requests that may be done before their limit although something lives."""
        self._stops = {b: each.request.stops for b, each in enumerate(searches) if each.request.stops is not None}
        self._lives = np.ones(len(searches), np.int64)  # hypotheses of each request, after a step
        self._outcomes: dict[int, Outcome] = {}

    @property
    def is_usual(self) -> bool:
        """Whether its next step may be one that a `Step` takes by itself."""
        return not self.draws and not self._undecided

    @property
    def candidates(self) -> int:
        """How many tokens of each row a step looks at."""
        return 1 if self.width == 1 else 2 * self.width

    def drawn(self, step: Step, table: Table) -> Best:
        """The token that each row draws."""
        lengths = table.lengths[self.rows].tolist()
        uniforms = [each.request.uniform(length) for each, length in zip(self.searches, lengths, strict=True)]
        samplings = [each.request.sampling for each in self.searches if each.request.sampling is not None]
        return draw(step, np.arange(self.rows.start, self.rows.stop), samplings, uniforms)

    def continued(self, table: Table, best: Best, observer: SearchObserver | None) -> Next:
        """Continues every request by its best continuations. Those that end are set aside with their requests.

        As many live as the beam is wide, or fewer; then the other rows are empty places.
        """
        width = self.width
        expansion = expand(table.totals[self.rows].reshape(-1, width), best)
        goes_on = (expansion.total > -np.inf) & (expansion.token != self.end)
        is_nan = np.isnan(best.log_prob[:, 0])
        if observer is not None or not goes_on[:, :width].all() or is_nan.any():
            self._set_aside(table, expansion, goes_on, is_nan, observer)
        if width == 1:
            self._lives = goes_on[:, 0]
            return Next(np.arange(self.rows.start, self.rows.stop), *(each[:, 0] for each in expansion.columns))
        self._lives = np.minimum(goes_on.sum(1), width)
        in_order = np.argsort(~goes_on, axis=1, kind="stable")  # those that go on before those that end
        request = np.arange(len(in_order))[:, None]
        chosen = in_order[:, :width] + request * expansion.total.shape[1]  # places in flattened arrays
        token, log_prob, total = (each.take(chosen) for each in expansion.columns)
        is_empty = np.arange(width) >= self._lives[:, None]
        total[is_empty] = -np.inf
        first_row = self.first + request * width
        parent = first_row + expansion.parent.take(chosen)
        return Next(parent.ravel(), token.ravel(), log_prob.ravel(), total.ravel())

    def ended(self, table: Table) -> dict[int, Outcome]:
        """How the requests ended that ended with this step, which `table` has taken in; by ticket."""
        closing = (self._lives == 0) | (table.lengths[self.rows][:: self.width] >= self.limits)
        for b in sorted({*closing.nonzero()[0].tolist(), *self._undecided}):
            search = self.searches[b]
            live = self._hypotheses(b, table, int(self._lives[b]))
            if search.ticket not in self._outcomes and search.done(live):
                self._outcomes[search.ticket] = search.result(live)
        outcomes, self._outcomes = self.stopped(table) | self._outcomes, {}
        return outcomes

    def stopped(self, table: Table) -> dict[int, Outcome]:
        """How the requests ended whose output is complete by what it says; by ticket. It looks at no more of an output
        than its `stops` does.
        """
        complete = [b for b, stops in self._stops.items() if stops(table.written(self.first + b))]
        return {self.searches[b].ticket: self.searches[b].result(self.live(b, table)) for b in complete}

    def agreed(self, b: int, table: Table, after: int) -> tuple[int, ...]:
        """The tokens that every possible result of request b begins with, those from the place `after` on."""
        if self.width == 1:
            return tuple(table.written(self.first + b)[after:].tolist())
        return self.searches[b].agreed(self.live(b, table))[after:]

    def live(self, b: int, table: Table) -> list[Hypothesis]:
        """The live hypotheses of request b between two steps, likeliest first."""
        first = self.first + b * self.width
        return self._hypotheses(b, table, int((table.totals[first : first + self.width] > -np.inf).sum()))

    def _hypotheses(self, b: int, table: Table, count: int) -> list[Hypothesis]:
        return [table.hypothesis(self.first + b * self.width + i) for i in range(count)]

    def _set_aside(
        self,
        table: Table,
        expansion: Expansion,
        goes_on: Bool[np.ndarray, "B C"],
        is_nan: Bool[np.ndarray, "R"],
        observer: SearchObserver | None,
    ) -> None:
        """Gives each request the hypotheses that end now. Those that fail, or may write nothing more, have ended."""
        fails: Bool[np.ndarray, "B"] = np.any(is_nan.reshape(-1, self.width), axis=1)
        ends: Bool[np.ndarray, "B"] = ~np.all(goes_on[:, : self.width], axis=1)
        for b in np.flatnonzero(fails | ends | (observer is not None)).tolist():
            search = self.searches[b]
            if fails[b]:
                self._outcomes[search.ticket] = DecodeError(_NAN)
                continue
            parents = self.live(b, table)
            columns = zip(*(each[b].tolist() for each in expansion), goes_on[b].tolist(), strict=True)
            judged = list(_judged(columns, parents, self.width, self.end))
            ended = [each.hypothesis for each in judged if each.fate == "ended"]
            search.ended += ended
            if ended:
                self._undecided.add(b)
            if not judged:
                self._outcomes[search.ticket] = search.result(parents)  # the rules forbid every token
            if observer is not None:
                observer.candidates(search.ticket, judged)


def _judged(
    columns: Iterable[tuple[float, int, int, float, bool]], parents: Sequence[Hypothesis], width: int, end: int
) -> Iterator[Candidate]:
    """The continuations of one request, in order, and what becomes of each."""
    lives = 0
    for rank, (total, parent, token, log_prob, goes_on) in enumerate(columns):
        if total > -np.inf:
            fate = ("live" if lives < width else "dropped") if goes_on else "ended" if rank < width else "dropped"
            lives += goes_on
            yield Candidate(parents[parent].continued(token, log_prob, total, end), fate)
