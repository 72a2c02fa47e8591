"""A stepper for translation models on a GPU that takes several steps of a search ahead, without the host."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding.batched_beam import Expansion
from dragoman.decoding.hypothesis import Outputs
from dragoman.decoding.model_stepper import ModelStepper, TensorScores
from dragoman.decoding.processors import RowRules
from dragoman.model.blocks import CrossBlock
from dragoman.model.cache import BeamCache, BeamSizes
from dragoman.model.packing import Packing
from dragoman.model.transformer import EncoderDecoder
from dragoman.recording import Recorded
from dragoman.shapes import Float, Float64, Int

_POSITIONS, _SOURCE = 32, 16
"""Fewest positions of a search; like beams, they are doubled until they suffice, so that few steps are recorded."""
_KEPT = 2
"""Number of recorded searches that are kept for later batches of the same sizes."""
_SPARSE, _FEW_ROWS = 8, 64
"""A search moves to smaller tensors once one in this many beams is needed, unless its rows are few: a GPU saves little
with fewer rows, and the first steps of a new size have to be recorded.
"""


class DeviceSearch:
    """A search of B beams of W rows on a device: `BeamBatch` in tensors of fixed shapes, which does not know which
    requests are done. A step is one recorded function, which also chooses the next tokens.
    """

    def __init__(self, model: EncoderDecoder, sizes: BeamSizes, rules: int, end: int) -> None:
        self.model, self.sizes, self.rules, self.end = model, sizes, rules, end
        block, like, rows = model.decoder.blocks[0], model.output, sizes.beams * sizes.width
        assert isinstance(block, CrossBlock), "the decoder attends to a source"
        heads = block.self_attention.kv_heads, block.self_attention.d_head
        self.cache = BeamCache(sizes, len(model.decoder.blocks), heads, like)
        self._last = min(sizes.positions, model.config.max_positions or sizes.positions) - 1
        self._state = like.new_zeros((rows, 2 + 2 * rules), dtype=torch.float64)
        """For every row its last token, its total, and numbers above 0 for its forbidden and for its missing tokens."""
        self._ruled = like.new_zeros(rules, dtype=torch.int64)
        self._packing = Packing.even(sizes.beams, sizes.width, like.device)
        self._step = Recorded(self.step, like.device)

    def load(self, beams: Int[np.ndarray, "B2"], outputs: Outputs, rules: RowRules) -> None:
        """Set the state of these beams, whose rows are in `outputs`."""
        tokens, *of_rows = rules
        state = np.zeros((self.sizes.beams, self.sizes.width, self._state.size(1)))
        columns = outputs.last[:, None], outputs.totals[:, None], *of_rows
        state[beams] = np.concatenate(columns, axis=1).reshape(len(beams), *state.shape[1:])
        self._state.copy_(torch.from_numpy(state).flatten(0, 1), non_blocking=True)
        self._ruled.copy_(torch.from_numpy(tokens), non_blocking=True)

    def run(self, steps: int) -> Float64[np.ndarray, "N 4 B C"]:
        """Take steps, all of which are queued before the host waits, and return the results of `step`."""
        self.cache.filled += steps
        return torch.stack([self._step().clone() for _ in range(steps)]).cpu().numpy()

    def step(self) -> Float64[Tensor, "4 B C"]:
        """Write one token in every row; return the parts of an `Expansion`. A GPU records and replays this function."""
        width = self.sizes.width
        last, total, forbidden, missing = self._state.split([1, 1, self.rules, self.rules], 1)
        self.cache.open(self._last)
        hidden = self.model.decode(last[:, 0].long(), self._packing, self.cache)
        log_prob = self.model.project(hidden).float().log_softmax(-1)
        allowed = log_prob.index_select(1, self._ruled).masked_fill(forbidden > missing, -math.inf)
        best, token = self._best(log_prob.index_copy_(1, self._ruled, allowed), missing)
        candidates = (total + best).unflatten(0, (-1, width)).flatten(1)
        total, order = candidates.sort(dim=1, descending=True, stable=True)  # NaN first
        total, order = (part[:, : 1 if width == 1 else 2 * width] for part in (total, order))
        parent = order // best.size(1)
        token, best = (part.view(len(order), -1).gather(1, order) for part in (token, best))
        self._keep(total, parent, token)
        return torch.stack([total, parent.double(), token.double(), best.double()])

    def _best(
        self, log_prob: Float[Tensor, "R V"], missing: Float64[Tensor, "R P"]
    ) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
        """Return the best tokens of each row, the lower id first, without an end that `EachOnce` forbids."""
        if self.sizes.width == 1:
            return log_prob.max(dim=1, keepdim=True)  # the first of equals; an end that is the likeliest is allowed
        best, token = log_prob.topk(min(2 * self.sizes.width, log_prob.size(1)), sorted=False)
        token, order = token.sort(dim=1)
        best = best.gather(1, order)
        is_likeliest = token == token.gather(1, best.argmax(1, keepdim=True))
        is_missing = missing.sum(1, keepdim=True) > 0
        return best.masked_fill(is_missing & (token == self.end) & ~is_likeliest, -math.inf), token

    def _keep(self, total: Float64[Tensor, "B C"], parent: Int[Tensor, "B C"], token: Int[Tensor, "B C"]) -> None:
        """Keep the first W live continuations of each beam, followed by empty rows: `BeamBatch._keep_best`."""
        is_live = (total > -math.inf) & (token != self.end)
        kept = is_live.byte().sort(dim=1, descending=True, stable=True).indices[:, : self.sizes.width]
        total = total.gather(1, kept).masked_fill(~is_live.gather(1, kept), -math.inf)
        parent, token = parent.gather(1, kept), token.gather(1, kept).view(-1, 1)
        self.cache.move(parent)
        forbidden, missing = self._state.unflatten(0, parent.shape)[:, :, 2:].split([self.rules] * 2, 2)
        missing = missing.gather(1, parent[..., None].expand_as(missing)).flatten(0, 1)
        missing = missing.masked_fill(token == self._ruled, 0)
        self._state.copy_(torch.cat([token, total.view(-1, 1), forbidden.flatten(0, 1), missing], 1))


IdleSearches = dict[tuple[BeamSizes, int, int], DeviceSearch]
"""Searches that no stepper uses now, by their sizes, number of rules and end symbol."""


class DeviceStepper(ModelStepper):
    """A `ModelStepper` that also takes steps of a search ahead. Its rows are then in a `DeviceSearch`, where `select`
    takes no work on the device, but keeps or drops whole beams. Any other call moves the rows to an ordinary cache.
    """

    def __init__(self, model: EncoderDecoder, idle: IdleSearches | None = None) -> None:
        """Create a stepper that takes over `idle` searches of the same model, and leaves its own there."""
        super().__init__(model)
        self._translator, self._idle = model, {} if idle is None else idle
        self._search: DeviceSearch | None = None
        self._beams: Int[np.ndarray, "B"] = np.empty(0, np.int64)  # of the search, which hold the active rows

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        self._leave_search()
        super().admit(sources)

    def advance(self, token: Int[np.ndarray, "R"]) -> TensorScores:
        self._leave_search()
        return super().advance(token)

    def select(self, row: Int[np.ndarray, "R2"]) -> None:
        if self._search is None:
            super().select(row)
        else:
            width = self._search.sizes.width
            self._beams = self._beams[row[::width] // width]
            if not len(row):
                self._leave_search()

    @torch.inference_mode()
    def expand_ahead(self, outputs: Outputs, width: int, end: int, rules: RowRules, steps: int) -> Iterator[Expansion]:
        """Take steps without the host, and yield the continuations of each: those of the hypotheses that `BeamBatch`
        keeps of the step before. Beams that `select` drops are left out from then on. Totals of a beam with NaN begin
        with NaN.
        """
        search = self._search_for(width, end, len(rules[0]), steps)
        search.load(self._beams, outputs, rules)
        return map(self._expansion, search.run(steps))

    def _expansion(self, result: Float64[np.ndarray, "4 B C"]) -> Expansion:
        total, parent, token, log_prob = result[:, self._beams]
        return Expansion(total, parent.astype(np.int64), token.astype(np.int64), log_prob.astype(np.float32))

    def _search_for(self, width: int, end: int, rules: int, steps: int) -> DeviceSearch:
        """Return the search that holds the active rows, and has memory for these steps."""
        if (search := self._search) is not None:
            beams, fits = search.sizes.beams, search.cache.filled + steps <= search.sizes.positions
            is_sparse = beams >= _SPARSE * len(self._beams) and beams * width > _FEW_ROWS
            if fits and not is_sparse and (search.sizes.width, search.rules, search.end) == (width, rules, end):
                return search
        self._leave_search()
        cache = self.cache
        assert cache is not None and cache.cross_keys is not None, "admit rows before steps"
        self._beams = np.arange(cache.rows // width)
        positions, source = cache.filled + steps, cache.cross_keys.keys[0].size(2)
        sizes = _doubled(1, len(self._beams)), width, _doubled(_POSITIONS, positions), _doubled(_SOURCE, source)
        key = BeamSizes(*sizes), rules, end
        self._search = self._idle.pop(key, None) or DeviceSearch(self._translator, *key)
        self._search.cache.fill(cache)
        self.cache = None
        return self._search

    @torch.inference_mode()
    def _leave_search(self) -> None:
        """Move the active rows to an ordinary cache."""
        if (search := self._search) is not None:
            self.cache, self._search = search.cache.rows_of(torch.from_numpy(self._beams).to(self.device)), None
            self._idle[search.sizes, search.rules, search.end] = search  # the newest last
            for key in [*self._idle][:-_KEPT]:
                self._idle.pop(key, None)


def _doubled(least: int, needed: int) -> int:
    """Return the smallest of least, 2 least, 4 least ... that is at least `needed`."""
    return least << max(0, math.ceil(math.log2(needed / least)))
