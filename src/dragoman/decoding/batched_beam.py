"""Beams of one width, continued side by side: what `beam` does for one request, as arrays for many."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from dragoman.decoding.beam import Beam
from dragoman.decoding.hypothesis import Candidate, Fate, Hypothesis, Outputs, SearchObserver
from dragoman.decoding.sampling import draw
from dragoman.decoding.steppers import Best, Step
from dragoman.errors import DecodeError

Outcome = list[Hypothesis] | Exception
"""What a request found, best first; or the error that ended it."""

_NAN = "the model's outputs are NaN; its weights are damaged or its precision is too low"


class Expansion(NamedTuple):
    """The best C continuations of each of B beams, in order."""

    total: Float[np.ndarray, "B C"]
    parent: Int[np.ndarray, "B C"]  # among the beam's hypotheses
    token: Int[np.ndarray, "B C"]
    log_prob: Float[np.ndarray, "B C"]  # of the token


class Next(NamedTuple):
    """How rows go on: from which row, by which token, with its log-probability, to which total."""

    parent: Int[np.ndarray, "R"]
    token: Int[np.ndarray, "R"]
    log_prob: Float[np.ndarray, "R"]
    total: Float[np.ndarray, "R"]


def expand(total: Float[np.ndarray, "B W"], best: Best) -> Expansion:
    """Continues W hypotheses of each of B beams by the best tokens of their rows; R = B * W.

    `total` holds their log-probabilities so far, minus infinity for an empty place. Returns as many continuations as a
    search can use: one if W is 1, else 2 W, because W of them may end.
    """
    width, count = total.shape[1], best.token.shape[1]
    if width == 1:
        return Expansion(total + best.log_prob, np.zeros_like(best.token), best.token, best.log_prob)
    candidates = (total.reshape(-1, 1) + best.log_prob).reshape(-1, width * count)
    order = np.argsort(-candidates, axis=1, kind="stable")[:, : 2 * width]
    flat = order + np.arange(len(order))[:, None] * (width * count)
    return Expansion(candidates.take(flat), order // count, best.token.take(flat), best.log_prob.take(flat))


class BeamBatch:
    """Beams of one width that all search or all draw. Their rows follow one another in `Outputs`, from `first` on."""

    def __init__(self, beams: Sequence[Beam], first: int) -> None:
        self.beams, self.first, self.end = beams, first, beams[0].end
        self.width, self.draws = beams[0].request.kind
        self.rows = slice(first, first + self.width * len(beams))
        self.limits = np.array([beam.request.limit for beam in beams])
        self._undecided = {b for b, beam in enumerate(beams) if beam.ended}
        """Beams that may be done before their limit although something lives."""
        self._stops = [(b, beam.request.stops) for b, beam in enumerate(beams) if beam.request.stops is not None]
        self._live = np.ones(len(beams), np.int64)  # hypotheses of each beam, after a step
        self._outcomes: dict[int, Outcome] = {}

    @property
    def is_usual(self) -> bool:
        """Whether its next step may be one that a `Step` takes by itself."""
        return not self.draws and not self._undecided

    @property
    def candidates(self) -> int:
        """How many tokens of each row a step looks at."""
        return 1 if self.width == 1 else 2 * self.width

    def drawn(self, step: Step, outputs: Outputs) -> Best:
        """The token that each row draws."""
        lengths = outputs.lengths[self.rows].tolist()
        uniforms = [beam.request.uniform(length) for beam, length in zip(self.beams, lengths, strict=True)]
        samplings = [beam.request.sampling for beam in self.beams if beam.request.sampling is not None]
        return draw(step, np.arange(self.rows.start, self.rows.stop), samplings, uniforms)

    def advance(self, outputs: Outputs, best: Best, observer: SearchObserver | None) -> Next:
        """How every row goes on by its best tokens. Hypotheses that end are set aside with their beams.

        As many live as the beam is wide, or fewer; then the other rows are empty places.
        """
        width = self.width
        expansion = expand(outputs.totals[self.rows].reshape(-1, width), best)
        is_live = (expansion.total > -np.inf) & (expansion.token != self.end)
        is_nan = np.isnan(best.log_prob[:, 0])
        if observer is not None or not is_live[:, :width].all() or is_nan.any():
            self._set_aside(outputs, expansion, is_live, is_nan, observer)
        if width > 1:
            return self._keep_best(expansion, is_live)
        self._live = is_live[:, 0]
        parent = np.arange(self.rows.start, self.rows.stop)
        return Next(parent, expansion.token[:, 0], expansion.log_prob[:, 0], expansion.total[:, 0])

    def _keep_best(self, expansion: Expansion, is_live: Bool[np.ndarray, "B C"]) -> Next:
        """The first `width` continuations of each beam that live; after them, empty places."""
        width, beams = self.width, np.arange(len(is_live))[:, None]
        self._live = np.minimum(is_live.sum(1), width)
        live_first = np.argsort(~is_live, axis=1, kind="stable")[:, :width]
        flat = live_first + beams * is_live.shape[1]
        token, log_prob, total = expansion.token.take(flat), expansion.log_prob.take(flat), expansion.total.take(flat)
        total[np.arange(width) >= self._live[:, None]] = -np.inf
        parent = self.first + beams * width + expansion.parent.take(flat)
        return Next(parent.ravel(), token.ravel(), log_prob.ravel(), total.ravel())

    def ended(self, outputs: Outputs) -> dict[int, Outcome]:
        """How the requests ended that ended with this step, which `outputs` has taken in; by ticket."""
        closing = (self._live == 0) | (outputs.lengths[self.rows][:: self.width] >= self.limits)
        for b in sorted({*closing.nonzero()[0].tolist(), *self._undecided}):
            beam = self.beams[b]
            live = self._hypotheses(b, outputs, int(self._live[b]))
            if beam.ticket not in self._outcomes and beam.done(live):
                self._outcomes[beam.ticket] = beam.result(live)
        outcomes, self._outcomes = self.stopped(outputs) | self._outcomes, {}
        return outcomes

    def stopped(self, outputs: Outputs) -> dict[int, Outcome]:
        """How the requests ended whose output is complete by what it says; by ticket. It looks at no more of an output
        than its `stops` does.
        """
        complete = [b for b, stops in self._stops if stops(outputs.written(self.first + b))]
        return {self.beams[b].ticket: self.beams[b].result(self.live(b, outputs)) for b in complete}

    def agreed(self, b: int, outputs: Outputs, after: int) -> tuple[int, ...]:
        """The tokens that every possible result of beam b begins with, those from the place `after` on."""
        if self.width == 1:
            return tuple(outputs.written(self.first + b)[after:].tolist())
        return self.beams[b].agreed(self.live(b, outputs))[after:]

    def live(self, b: int, outputs: Outputs) -> list[Hypothesis]:
        """The live hypotheses of beam b between two steps, likeliest first."""
        first = self.first + b * self.width
        return self._hypotheses(b, outputs, int((outputs.totals[first : first + self.width] > -np.inf).sum()))

    def _hypotheses(self, b: int, outputs: Outputs, count: int) -> list[Hypothesis]:
        first = self.first + b * self.width
        return [outputs.hypothesis(row) for row in range(first, first + count)]

    def _set_aside(
        self,
        outputs: Outputs,
        expansion: Expansion,
        is_live: Bool[np.ndarray, "B C"],
        is_nan: Bool[np.ndarray, "R"],
        observer: SearchObserver | None,
    ) -> None:
        """Gives each beam the hypotheses that end now. Those that fail, or may write nothing more, have ended."""
        fails: Bool[np.ndarray, "B"] = np.any(is_nan.reshape(-1, self.width), axis=1)
        ends: Bool[np.ndarray, "B"] = ~np.all(is_live[:, : self.width], axis=1)
        for b in np.flatnonzero(fails | ends | (observer is not None)).tolist():
            beam = self.beams[b]
            if fails[b]:
                self._outcomes[beam.ticket] = DecodeError(_NAN)
                continue
            parents = self.live(b, outputs)
            candidates = self._candidates(b, expansion, is_live[b].tolist(), parents)
            ended = [candidate.hypothesis for candidate in candidates if candidate.fate == "ended"]
            beam.ended += ended
            if ended:
                self._undecided.add(b)
            if not candidates:
                self._outcomes[beam.ticket] = beam.result(parents)  # the processors forbid every token
            if observer is not None:
                observer.candidates(beam.ticket, candidates)

    def _candidates(
        self, b: int, expansion: Expansion, is_live: Sequence[bool], parents: Sequence[Hypothesis]
    ) -> list[Candidate]:
        """The continuations of beam b, in order, and what becomes of each."""
        candidates: list[Candidate] = []
        columns = zip(*(part[b].tolist() for part in expansion), strict=True)
        live = 0
        for rank, (total, parent, token, log_prob) in enumerate(columns):
            if total == -np.inf:
                continue
            fate: Fate = "dropped"
            if is_live[rank] and live < self.width:
                fate = "live"
                live += 1
            elif token == self.end and rank < self.width:
                fate = "ended"
            hypothesis = parents[parent].continued(token, log_prob, total, self.end)
            candidates.append(Candidate(hypothesis, fate))
        return candidates
