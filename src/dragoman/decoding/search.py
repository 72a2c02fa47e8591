"""The one search: greedy or beam, over any `Stepper`, for any number of sentences.

Sentences that are found leave the rows under way at once, and waiting ones enter when half of the room is free.
What a sentence finds does not depend on its company. Knows ids only; `translator` knows text.
"""

from collections import deque
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.beam import Beam, Expansion, Hypothesis, expand
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.rules import Rule
from dragoman.decoding.stepper import Stepper
from dragoman.errors import DecodeError


class Search:
    """Sentences on their way from sources to hypotheses.

    `limits` are the most tokens that each may write, the `end` symbol included.
    """

    def __init__(
        self,
        stepper: Stepper,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        *,
        start: int,
        end: int,
        options: SearchOptions,
        rules: Sequence[Rule] = (),
    ) -> None:
        self.stepper, self.sources, self.limits = stepper, sources, limits
        self.start, self.end, self.options, self.rules = start, end, options, rules
        self.waiting = deque(sorted(range(len(sources)), key=lambda i: -len(sources[i])))
        self.beams: list[Beam] = []
        self.total: Float[Tensor, "B W"] = torch.empty(0, options.beam_size, device=stepper.device)
        self.history: Int[Tensor, "R T"] = torch.empty(0, 1, dtype=torch.int64, device=stepper.device)

    def run(self) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Each sentence's number and what was found for it, best first, in the order of being found."""
        while self.waiting or self.beams:
            for beam in self.step():
                yield beam.sentence, beam.result()

    @torch.inference_mode()
    def step(self) -> list[Beam]:
        """One more token in every row; returns the sentences that are done with it."""
        self._admit()
        log_prob = self.stepper.advance(self.history[:, -1:]).log_prob
        if self.rules:
            sentence = self._sentences()
            for rule in self.rules:
                rule(log_prob, self.history, sentence)
        return self._settle(expand(self.total, log_prob))

    def _admit(self) -> None:
        """Lets the longest of the waiting sentences in, once half of the room is free."""
        room, width = self.options.batch_tokens, self.options.beam_size
        longest = max((len(self.sources[beam.sentence]) for beam in self.beams), default=0)
        if not self.waiting or len(self.beams) * longest * width > room // 2:
            return
        admitted: list[int] = []
        while self.waiting:
            longest = max(longest, len(self.sources[self.waiting[0]]))
            if (len(self.beams) + len(admitted) + 1) * longest * width > room and (self.beams or admitted):
                break
            admitted.append(self.waiting.popleft())
        if admitted:
            self._enter(admitted)

    def _enter(self, admitted: list[int]) -> None:
        """Gives each new sentence its rows: the first is the empty hypothesis, the others count for nothing."""
        width, options, device = self.options.beam_size, self.options, self.stepper.device
        rows = len(self.beams) * width
        self.stepper.admit([self.sources[i] for i in admitted])
        if width > 1:
            fresh = torch.arange(rows, rows + len(admitted), device=device).repeat_interleave(width)
            self.stepper.select(torch.cat([torch.arange(rows, device=device), fresh]))
        total = torch.full((len(admitted), width), -torch.inf, device=device)
        total[:, 0] = 0.0
        history = self.history.new_full((total.numel(), self.history.size(1)), -1)
        history[:, -1] = self.start
        self.total = torch.cat([self.total, total])
        self.history = torch.cat([self.history, history])
        self.beams += [
            Beam(i, width, options.n_best, self.limits[i], options.length_penalty, self.end) for i in admitted
        ]

    def _settle(self, expansion: Expansion) -> list[Beam]:
        """Hands every sentence its continuations, and keeps the rows of those that go on."""
        width, done, going = self.options.beam_size, [], []
        rows: list[int] = []
        tokens: list[int] = []
        totals: list[list[float]] = []
        candidates = zip(*(column.tolist() for column in expansion), strict=True)  # the step's one wait for the device
        for place, (beam, columns) in enumerate(zip(self.beams, candidates, strict=True)):
            if columns[0][0] != columns[0][0]:
                raise DecodeError("the model gives no numbers (NaN); its weights are damaged or its precision too low")
            live = beam.take(zip(*columns, strict=True))
            if beam.done:
                done.append(beam)
                continue
            going.append(beam)
            live += [(live[0][0], live[0][1], -torch.inf)] * (width - len(live))
            rows += [place * width + parent for parent, _, _ in live]
            tokens += [token for _, token, _ in live]
            totals.append([total for _, _, total in live])
        self.beams = going
        self._keep(rows, tokens, totals)
        return done

    def _keep(self, rows: list[int], tokens: list[int], totals: list[list[float]]) -> None:
        """Brings the rows of stepper, history and totals to what lives now."""
        device = self.stepper.device
        chosen, token = torch.tensor([rows, tokens], dtype=torch.int64, device=device)
        if rows != list(range(self.history.size(0))):
            self.stepper.select(chosen)
            self.history = self.history[chosen]
        longest = max((beam.length for beam in self.beams), default=0)
        self.history = torch.cat([self.history, token[:, None]], dim=1)[:, -longest - 1 :]
        self.total = torch.tensor(totals, dtype=torch.float32, device=device).view(-1, self.options.beam_size)

    def _sentences(self) -> Int[Tensor, "R"]:
        numbers = torch.tensor([beam.sentence for beam in self.beams], device=self.stepper.device)
        return numbers.repeat_interleave(self.options.beam_size)
