"""Beam search for many requests of the same width at once, as arrays; `beam` defines it for one request."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dragoman.decoding.beam import Beam
from dragoman.decoding.hypothesis import BeamCandidate, CandidateStatus, Hypothesis, Outputs, SearchObserver
from dragoman.decoding.sampling import draw
from dragoman.decoding.steppers import StepScores, TopTokens
from dragoman.errors import DecodeError
from dragoman.shapes import Bool, Float, Int

Outcome = list[Hypothesis] | Exception
"""The hypotheses of a request, best first, or the error that ended it."""

_NAN = "the model's outputs are NaN; its weights are damaged or its precision is too low"


class Expansion(NamedTuple):
    """The best C continuations of each of B beams, in order."""

    total: Float[np.ndarray, "B C"]
    parent: Int[np.ndarray, "B C"]  # index among the beam's hypotheses
    token: Int[np.ndarray, "B C"]
    log_prob: Float[np.ndarray, "B C"]  # of the token


class BeamStep(NamedTuple):
    """One beam step: parent row, token, log-probability and total of every row."""

    parent: Int[np.ndarray, "R"]
    token: Int[np.ndarray, "R"]
    log_prob: Float[np.ndarray, "R"]
    total: Float[np.ndarray, "R"]


def expand(total: Float[np.ndarray, "B W"], best: TopTokens) -> Expansion:
    """Continue W hypotheses of each of B beams by the best tokens of their rows; R = B * W.

    `total` holds their log-probabilities so far, minus infinity for an empty row. Returns 1 continuation per beam if W
    is 1, else 2 W, because W of them may end.
    """
    width, count = total.shape[1], best.token.shape[1]
    if width == 1:
        return Expansion(total + best.log_prob, np.zeros_like(best.token), best.token, best.log_prob)
    candidates = (total.reshape(-1, 1) + best.log_prob).reshape(-1, width * count)
    order = np.argsort(-candidates, axis=1, kind="stable")[:, : 2 * width]
    flat = order + np.arange(len(order))[:, None] * (width * count)
    return Expansion(candidates.take(flat), order // count, best.token.take(flat), best.log_prob.take(flat))


class BeamBatch:
    """Beams of one width that either all search or all sample. Their rows are consecutive in `Outputs` from `first`."""

    def __init__(self, beams: Sequence[Beam], first: int) -> None:
        self.beams, self.first, self.end = beams, first, beams[0].end
        self.width, self.is_sampling = beams[0].kind
        self.rows = slice(first, first + self.width * len(beams))
        self.limits = np.array([beam.request.limit for beam in beams])
        self._undecided = {b for b, beam in enumerate(beams) if beam.finished}
        """Indices of beams that may be done before their limit although a hypothesis is live."""
        self.stops = [(b, beam.request.stops) for b, beam in enumerate(beams) if beam.request.stops is not None]
        self._live = np.ones(len(beams), np.int64)  # hypotheses of each beam, after a step
        self._outcomes: dict[int, Outcome] = {}

    @property
    def allows_fast_step(self) -> bool:
        """True if `StepScores.write_next` may take the next step."""
        return not self.is_sampling and not self._undecided

    @property
    def candidates(self) -> int:
        """Number of tokens of a row that a step considers."""
        return 1 if self.width == 1 else 2 * self.width

    def sample(self, step: StepScores, outputs: Outputs) -> TopTokens:
        """Sample a token for every row."""
        lengths = outputs.lengths[self.rows].tolist()
        uniforms = [beam.request.uniform(length) for beam, length in zip(self.beams, lengths, strict=True)]
        samplings = [beam.request.sampling for beam in self.beams if beam.request.sampling is not None]
        return draw(step, np.arange(self.rows.start, self.rows.stop), samplings, uniforms)

    def advance(self, outputs: Outputs, best: TopTokens, observer: SearchObserver | None) -> BeamStep:
        """Return the next step of every row: see `take`."""
        fails: Bool[np.ndarray, "B"] = np.any(np.isnan(best.log_prob[:, 0]).reshape(-1, self.width), axis=1)
        return self.take(outputs, expand(outputs.totals[self.rows].reshape(-1, self.width), best), fails, observer)

    def take(
        self, outputs: Outputs, expansion: Expansion, fails: Bool[np.ndarray, "B"], observer: SearchObserver | None
    ) -> BeamStep:
        """Return the next step of every row, and empty rows for missing hypotheses; finished ones join their beams.
        A beam `fails` if a log-probability is NaN.
        """
        width = self.width
        is_live = (expansion.total > -np.inf) & (expansion.token != self.end)
        if observer is not None or not is_live[:, :width].all() or fails.any():
            self._collect_finished(outputs, expansion, is_live, fails, observer)
        if width > 1:
            return self._keep_best(expansion, is_live)
        self._live = is_live[:, 0]
        parent = np.arange(self.rows.start, self.rows.stop)
        return BeamStep(parent, expansion.token[:, 0], expansion.log_prob[:, 0], expansion.total[:, 0])

    def _keep_best(self, expansion: Expansion, is_live: Bool[np.ndarray, "B C"]) -> BeamStep:
        """Return the first `width` live continuations of each beam, followed by empty rows."""
        width, beams = self.width, np.arange(len(is_live))[:, None]
        self._live = np.minimum(is_live.sum(1), width)
        live_first = np.argsort(~is_live, axis=1, kind="stable")[:, :width]
        flat = live_first + beams * is_live.shape[1]
        token, log_prob, total = expansion.token.take(flat), expansion.log_prob.take(flat), expansion.total.take(flat)
        total[np.arange(width) >= self._live[:, None]] = -np.inf
        parent = self.first + beams * width + expansion.parent.take(flat)
        return BeamStep(parent.ravel(), token.ravel(), log_prob.ravel(), total.ravel())

    def finished(self, outputs: Outputs) -> dict[int, Outcome]:
        """Return the outcomes of requests that finished in this step, keyed by ticket. `outputs` includes the step."""
        closing = (self._live == 0) | (outputs.lengths[self.rows][:: self.width] >= self.limits)
        totals = outputs.totals[self.rows][:: self.width]
        for b in sorted({*closing.nonzero()[0].tolist(), *self._undecided}):
            beam = self.beams[b]
            if beam.ticket not in self._outcomes and (closing[b] or beam.settled(float(totals[b]))):
                missing = max(0, beam.request.n_best - len(beam.finished))
                live = self._hypotheses(b, outputs, min(int(self._live[b]), missing))
                self._outcomes[beam.ticket] = beam.result(live)
        outcomes, self._outcomes = self.stopped(outputs) | self._outcomes, {}
        return outcomes

    def stopped(self, outputs: Outputs) -> dict[int, Outcome]:
        """Return the outcomes of requests whose `stops` accepts their output, keyed by ticket."""
        complete = [b for b, stops in self.stops if stops(outputs.written(self.first + b))]
        return {self.beams[b].ticket: self.beams[b].result(self.live(b, outputs)) for b in complete}

    def stable_prefix(self, b: int, outputs: Outputs, after: int) -> tuple[int, ...]:
        """Return the common prefix of all possible results of beam b, from position `after`."""
        if self.width == 1:
            return tuple(outputs.written(self.first + b)[after:].tolist())
        return self.beams[b].stable_prefix(self.live(b, outputs))[after:]

    def live(self, b: int, outputs: Outputs) -> list[Hypothesis]:
        """Return the live hypotheses of beam b between two steps, likeliest first."""
        first = self.first + b * self.width
        return self._hypotheses(b, outputs, int((outputs.totals[first : first + self.width] > -np.inf).sum()))

    def _hypotheses(self, b: int, outputs: Outputs, count: int) -> list[Hypothesis]:
        first = self.first + b * self.width
        return [outputs.hypothesis(row) for row in range(first, first + count)]

    def _collect_finished(
        self,
        outputs: Outputs,
        expansion: Expansion,
        is_live: Bool[np.ndarray, "B C"],
        fails: Bool[np.ndarray, "B"],
        observer: SearchObserver | None,
    ) -> None:
        """Add hypotheses that end now to their beams, and store the outcome of beams that fail or cannot continue."""
        ends: Bool[np.ndarray, "B"] = ~np.all(is_live[:, : self.width], axis=1)
        for b in np.flatnonzero(fails | ends | (observer is not None)).tolist():
            beam = self.beams[b]
            if fails[b]:
                self._outcomes[beam.ticket] = DecodeError(_NAN)
                continue
            continuations = [*zip(*(part[b].tolist() for part in expansion), strict=True)]
            if observer is not None:
                observer.candidates(beam.ticket, self._candidates(b, outputs, continuations, is_live[b].tolist()))
            count = len(beam.finished)
            for continuation in continuations[: self.width]:
                total, _, token, _ = continuation
                if token == self.end and total > -np.inf:
                    beam.finished.append(self._continued(b, outputs, *continuation))
            if len(beam.finished) > count:
                self._undecided.add(b)
            elif continuations[0][0] == -np.inf:
                self._outcomes[beam.ticket] = beam.result(self.live(b, outputs))  # the processors forbid every token

    def _candidates(
        self, b: int, outputs: Outputs, continuations: Sequence[tuple[float, int, int, float]], is_live: Sequence[bool]
    ) -> list[BeamCandidate]:
        """Return the continuations of beam b, in order, with their status."""
        candidates: list[BeamCandidate] = []
        live = 0
        for rank, continuation in enumerate(continuations):
            total, _, token, _ = continuation
            if total == -np.inf:
                continue
            status: CandidateStatus = "dropped"
            if is_live[rank] and live < self.width:
                status = "live"
                live += 1
            elif token == self.end and rank < self.width:
                status = "ended"
            candidates.append(BeamCandidate(self._continued(b, outputs, *continuation), status))
        return candidates

    def _continued(
        self, b: int, outputs: Outputs, total: float, parent: int, token: int, log_prob: float
    ) -> Hypothesis:
        """Return a continuation of beam b: the fields of `Expansion` for it."""
        return outputs.hypothesis(self.first + b * self.width + parent).continued(token, log_prob, total, self.end)
