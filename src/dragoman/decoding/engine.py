"""The one search: greedy, beam or sampling, over any `Stepper`, for requests that come while others are under way.

    engine = Engine(stepper, start=2, end=3)
    ticket = engine.admit(Request([2, 17, 25, 3], limit=20, beam_size=4))
    while engine.busy:
        for found in engine.step(): ...

A request leaves as soon as it is done, and waiting ones enter when half of the room is free. What a request finds does
not depend on the others, even if they fail. The engine knows ids only; `translating` knows text.
"""

import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.beam import Beam, Continuation, Expansion, Hypothesis, expand
from dragoman.decoding.observer import SearchObserver, judged
from dragoman.decoding.request import Request
from dragoman.decoding.rules import Rule
from dragoman.decoding.sampling import draw
from dragoman.decoding.stepper import Stepper
from dragoman.errors import DecodeError

_NAN = "the model's outputs are NaN; its weights are damaged or its precision is too low"


class Found(NamedTuple):
    """How the request with this ticket ended."""

    ticket: int
    outcome: list[Hypothesis] | DecodeError
    """What it found, best first; or the error that ended it."""

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """What the request found, best first.

        Raises:
            DecodeError: the request failed.
        """
        if isinstance(self.outcome, DecodeError):
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
    ) -> None:
        self.stepper, self.start, self.end = stepper, start, end
        self.batch_tokens, self.observer = batch_tokens, observer
        self._tickets = itertools.count()
        self._arrived: list[Beam] = []  # since the last step
        self._waiting: deque[Beam] = deque()
        self._beams: list[Beam] = []  # under way, by kind; their rows follow one another
        self._obeyed: list[tuple[Rule, Int[Tensor, "Q"]]] = []  # by these rows
        self._total: Float[Tensor, "R"] = torch.empty(0, device=stepper.device)
        self._history: Int[Tensor, "R T"] = torch.empty(0, 1, dtype=torch.int64, device=stepper.device)

    @property
    def busy(self) -> bool:
        """Whether any request waits or is under way."""
        return bool(self._arrived or self._waiting or self._beams)

    @property
    def under_way(self) -> list[int]:
        """Tickets of the requests that hold rows."""
        return [beam.ticket for beam in self._beams]

    def admit(self, request: Request) -> int:
        """Takes in a request, which enters at a later `step`; returns its ticket.

        Of the requests that arrive between two steps, that with the largest `room` enters first, after all that arrived
        earlier.
        """
        ticket = next(self._tickets)
        self._arrived.append(Beam(ticket, request, self.end))
        return ticket

    @torch.inference_mode()
    def cancel(self, ticket: int) -> None:
        """Forgets a request and frees its rows at once. For a finished ticket it does nothing."""
        self._arrived = [beam for beam in self._arrived if beam.ticket != ticket]
        self._waiting = deque(beam for beam in self._waiting if beam.ticket != ticket)
        if ticket in self.under_way:
            rows = [row for beam, rows in self._holders() if beam.ticket != ticket for row in rows]
            self._go_on_with([beam for beam in self._beams if beam.ticket != ticket])
            self._select(rows)

    def agreed(self, ticket: int) -> tuple[int, ...]:
        """The tokens that every possible result of a request begins with; none while it waits."""
        return next((beam.agreed() for beam in self._beams if beam.ticket == ticket), ())

    def run(self) -> Iterator[Found]:
        """Steps until no request is left; yields how each ended, in that order."""
        while self.busy:
            yield from self.step()

    @torch.inference_mode()
    def step(self) -> list[Found]:
        """Writes one more token in every row; returns the requests that ended with it.

        A request whose log-probabilities are NaN fails and leaves; the others go on.
        """
        self._enter()
        if not self._beams:
            return []
        log_prob = self.stepper.advance(self._history[:, -1:]).log_prob
        for rule, rows in self._obeyed:
            rule(log_prob, self._history, rows)
        return self._take(log_prob)

    def _enter(self) -> None:
        """Lets waiting requests in, once half of the room is free."""
        self._waiting.extend(sorted(self._arrived, key=lambda beam: -beam.request.room))
        self._arrived.clear()
        longest = max((beam.request.room for beam in self._beams), default=0)
        rows = len(self._total)
        if not self._waiting or rows * longest > self.batch_tokens // 2:
            return
        entering: list[Beam] = []
        while self._waiting:
            beam = self._waiting[0]
            longest, rows = max(longest, beam.request.room), rows + beam.width
            if rows * longest > self.batch_tokens and (self._beams or entering):
                break
            entering.append(self._waiting.popleft())
        if entering:
            self._give_rows(entering)

    def _give_rows(self, entering: list[Beam]) -> None:
        """Gives each new request its rows: the first holds the empty hypothesis, the others are empty places."""
        count = len(self._total)
        self.stepper.admit([beam.request.source for beam in entering])
        history = self._history.new_full((len(entering), self._history.size(1)), -1)
        starts = [self.start if beam.request.start is None else beam.request.start for beam in entering]
        history[:, -1] = torch.tensor(starts, device=history.device)
        self._history = torch.cat([self._history, history])
        self._total = torch.cat([self._total, self._total.new_zeros(len(entering))])

        fresh = [(beam, [row] * beam.width) for row, beam in enumerate(entering, count)]
        holders = sorted([*self._holders(), *fresh], key=lambda holder: holder[0].kind)
        self._go_on_with([beam for beam, _ in holders])
        rows = [row for _, each in holders for row in each]
        self._select(rows)
        copies = [place for place, (before, row) in enumerate(itertools.pairwise(rows), 1) if before == row]
        self._total[copies] = -torch.inf

    def _take(self, log_prob: Float[Tensor, "R V"]) -> list[Found]:
        """Hands every request its continuations, and keeps the rows of those that go on."""
        ended: list[Found] = []
        going: list[Beam] = []
        rows: list[int] = []
        tokens: list[int] = []
        totals: list[float] = []
        for beam, first, continuations in self._continuations(log_prob):
            if math.isnan(continuations[0][0]):  # sorting puts NaN first
                ended.append(Found(beam.ticket, DecodeError(_NAN)))
                continue
            live = self._taken(beam, continuations)
            if beam.done:
                ended.append(Found(beam.ticket, beam.result()))
                continue
            going.append(beam)
            live += [(live[0][0], live[0][1], -torch.inf)] * (beam.width - len(live))
            rows += [first + parent for parent, _, _ in live]
            tokens += [token for _, token, _ in live]
            totals += [total for _, _, total in live]
        if ended:
            self._go_on_with(going)
        self._select(rows)
        self._append(tokens, totals)
        return ended

    def _continuations(self, log_prob: Float[Tensor, "R V"]) -> Iterator[tuple[Beam, int, list[Continuation]]]:
        """Each request under way, its first row, and its best continuations."""
        first = 0
        for (width, _), group in itertools.groupby(self._beams, key=attrgetter("kind")):
            beams = list(group)
            rows = slice(first, first + width * len(beams))
            expansion = self._expanded(beams, self._total[rows].unflatten(0, (-1, width)), log_prob[rows])
            columns = zip(*(column.tolist() for column in expansion), strict=True)  # waits for the device
            for beam, own in zip(beams, columns, strict=True):
                yield beam, first, list(zip(*own, strict=True))
                first += width

    def _expanded(
        self, beams: Sequence[Beam], total: Float[Tensor, "B W"], log_prob: Float[Tensor, "R V"]
    ) -> Expansion:
        """How requests of one kind may go on: the best continuations of a search, or the one drawn for a sample."""
        samplings = [beam.request.sampling for beam in beams if beam.request.sampling is not None]
        if not samplings:
            return expand(total, log_prob)
        token = draw(log_prob, samplings, [beam.request.uniform(beam.length) for beam in beams])
        value = log_prob.gather(1, token)
        return Expansion(total + value, torch.zeros_like(token), token, value)

    def _taken(self, beam: Beam, continuations: list[Continuation]) -> list[tuple[int, int, float]]:
        """What lives of these continuations; the observer is told of all."""
        parents = beam.live
        live = beam.take(continuations)
        if self.observer is not None:
            self.observer.candidates(beam.ticket, judged(parents, continuations, beam))
        return live

    def _append(self, tokens: list[int], totals: list[float]) -> None:
        """Writes each row's next token and total; drops the columns of `history` that no row needs."""
        device = self.stepper.device
        token = torch.tensor(tokens, dtype=torch.int64, device=device)
        longest = max((beam.length for beam in self._beams), default=0)
        self._history = torch.cat([self._history, token[:, None]], dim=1)[:, -longest - 1 :]
        self._total = torch.tensor(totals, dtype=torch.float32, device=device)

    def _holders(self) -> Iterator[tuple[Beam, range]]:
        """Each request under way and its rows."""
        first = 0
        for beam in self._beams:
            yield beam, range(first, first + beam.width)
            first += beam.width

    def _select(self, rows: list[int]) -> None:
        """Keeps these rows of the stepper, the history and the totals."""
        if rows == list(range(len(self._total))):
            return
        chosen = torch.tensor(rows, dtype=torch.int64, device=self.stepper.device)
        self.stepper.select(chosen)
        self._history, self._total = self._history[chosen], self._total[chosen]

    def _go_on_with(self, beams: list[Beam]) -> None:
        """Makes these the requests under way, and notes which rows obey which rule."""
        self._beams = beams
        obeyed: dict[Rule, list[int]] = {}
        for beam, rows in self._holders():
            for rule in beam.request.rules:
                obeyed.setdefault(rule, []).extend(rows)
        device = self.stepper.device
        self._obeyed = [(rule, torch.tensor(rows, device=device)) for rule, rows in obeyed.items()]
