"""A packed model that steps: a `Stepper` whose rows under way lie in C++."""

import ctypes
import time
import weakref
from collections.abc import Sequence
from itertools import chain
from operator import is_

import numpy as np
from jaxtyping import Float, Int

from dragoman.decoding.stepper import Best
from dragoman.decoding.table import Table
from dragoman.native.functions import functions
from dragoman.native.model import NativeModel


class _Search(ctypes.Structure):
    """The arrays of a `Table`, and its requests: the `Written` of search.h."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("tokens", "log_probs", "lengths", "totals", "last", "limits")),
        *((name, ctypes.c_int64) for name in ("room", "requests", "width", "end")),
    ]


class _Arrays:
    """The arrays of a search as C++ takes them, described anew only when they have moved."""

    def __init__(self) -> None:
        self._described: tuple[np.ndarray | None, ...] = (None,) * 6
        self._search, self.parents = _Search(), np.empty(0, np.int64)

    def describe(self, table: Table, limits: Int[np.ndarray, "B"], end: int) -> _Search:
        table.make_room()
        arrays = (table.tokens, table.log_probs, table.lengths, table.totals, table.last, limits)
        if not all(map(is_, arrays, self._described)):
            rows, room = table.tokens.shape
            self._described, self.parents = arrays, np.empty(rows, np.int64)
            self._search = _Search(*map(_address, arrays), room, len(limits), rows // len(limits), end)
        return self._search


class LogitStep:
    """A `Step` of logits (R, V), each row with the logarithm of the sum of their exponentials (R). It is written to,
    and holds until the next step.
    """

    def __init__(
        self, logits: Float[np.ndarray, "R V"], norms: Float[np.ndarray, "R"], arrays: _Arrays | None = None
    ) -> None:
        self.logits, self.norms, self._arrays = logits, norms, arrays or _Arrays()

    def forbid(self, rows: Int[np.ndarray, "..."], tokens: Int[np.ndarray, "..."]) -> None:
        self.logits[rows, tokens] = -np.inf

    def allow_only(self, rows: Int[np.ndarray, "Q"], tokens: Int[np.ndarray, "Q"]) -> None:
        kept = self.logits[rows, tokens]
        self.logits[rows] = -np.inf
        self.logits[rows, tokens] = kept

    def best(self, count: int) -> Best:
        rows, vocabulary = self.logits.shape
        count = min(count, vocabulary)
        best = Best(np.empty((rows, count), np.float32), np.empty((rows, count), np.int64))
        functions().best(*map(_address, (self.logits, self.norms)), rows, vocabulary, count, *map(_address, best))
        return best

    def write_next(self, table: Table, limits: Int[np.ndarray, "B"], end: int) -> Int[np.ndarray, "R"] | None:
        search, parents = self._arrays.describe(table, limits, end), self._arrays.parents
        made = _address(self.logits), _address(self.norms), self.logits.shape[1]
        if not functions().write_next(ctypes.byref(search), *made, _address(parents)):
            return None
        table.has_grown()
        return parents

    def log_probs(self) -> Float[np.ndarray, "R V"]:
        return self.logits - self.norms[:, None]


class NativeStepper:
    """Steps a packed model. It belongs to one thread at a time; others run beside its calls.

    A row's results are the same, to the bit, whatever rows stand beside it. A language model reads its sources when
    they are admitted.
    """

    def __init__(self, model: NativeModel, threads: int = 1) -> None:
        self.model, self.rows = model, 0
        self._pace, self._threads = model.pace(threads), threads
        self._functions = functions()
        self._decoder = self._functions.decoder_open(model.address, threads)
        if not self._decoder:
            raise MemoryError("there is no memory for a decoder")
        weakref.finalize(self, self._functions.decoder_close, self._decoder)
        self._logits, self._norms = np.empty((0, model.vocabulary), np.float32), np.empty(0, np.float32)
        self._made = _address(self._logits), _address(self._norms)
        self._arrays = _Arrays()

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        ids = np.fromiter(chain.from_iterable(sources), np.int64)
        self._use_threads(self._pace.threads(len(ids)))
        lengths = np.array([len(source) for source in sources], np.int64)
        _done(self._functions.decoder_admit(self._decoder, _address(ids), _address(lengths), len(lengths)))
        if self.model.config.family == "language_model":
            counts = np.concatenate([np.zeros(self.rows, np.int64), lengths])
            _done(self._functions.decoder_read(self._decoder, _address(ids), _address(counts)))
        self.rows += len(lengths)

    def advance(self, token: Int[np.ndarray, "R"]) -> LogitStep:
        if self.rows > len(self._norms):
            # Fresh memory for every step would cost more than the step.
            self._logits = np.empty((self.rows, self.model.vocabulary), np.float32)
            self._norms = np.empty(self.rows, np.float32)
            self._made = _address(self._logits), _address(self._norms)
        assert len(token) == self.rows, "every row is fed a token"
        self._use_threads(self._pace.threads(self.rows))
        start = time.perf_counter()
        _done(self._functions.decoder_advance(self._decoder, _address(token), *self._made))
        self._pace.took(self.rows, self._threads, time.perf_counter() - start)
        return LogitStep(self._logits[: self.rows], self._norms[: self.rows], self._arrays)

    def _use_threads(self, count: int) -> None:
        if count != self._threads:
            self._functions.decoder_use_threads(self._decoder, count)
            self._threads = count

    def judge(
        self, sources: Sequence[Sequence[int]], given: Sequence[Sequence[int]], labels: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "M"]:
        self.admit(sources)
        counts = np.array([len(each) for each in labels], np.int64)
        fed, label = (np.fromiter(chain.from_iterable(rows), np.int64) for rows in (given, labels))
        log_probs = np.empty(len(label), np.float32)
        _done(self._functions.decoder_judge(self._decoder, *map(_address, (fed, counts, label, log_probs))))
        self.select(np.empty(0, np.int64))
        return log_probs

    def select(self, row: Int[np.ndarray, "R2"]) -> None:
        _done(self._functions.decoder_select(self._decoder, _address(row), len(row)))
        self.rows = len(row)


def _address(array: np.ndarray) -> int:
    """Where the numbers of an array lie, which must lie side by side."""
    assert array.flags.c_contiguous, "C++ reads whole arrays"
    return array.ctypes.data


def _done(status: int) -> None:
    """Raises what a `Status` of model.cpp says."""
    if status == 1:
        raise MemoryError("there is no memory for the rows under way")
    if status == 2:
        raise IndexError("a token or a position is beyond those that the model has")
    assert not status, "the compiled decoder failed"
