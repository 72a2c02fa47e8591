"""The compiled decoder as a `Stepper`: its C++ functions, the packed weights, and the active rows kept in C++."""

import ctypes
import math
import statistics
import time
import weakref
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.compiled.libraries import Libraries, Library, Signature, sources
from dragoman.decoding.hypothesis import Outputs
from dragoman.decoding.processors import NotBlank, RulesOfAllRows
from dragoman.decoding.steppers import TopTokens
from dragoman.model.config import ModelConfig
from dragoman.model.shapes import possible_weights
from dragoman.shapes import Float, Int
from dragoman.store.weights import SCALE

_SOURCES = sources("decoder.cpp", "search.h", "arithmetic.h", "products.h", "team.h", "vectors.h")
_POINTER, _NUMBER, _NOTHING = ctypes.c_void_p, ctypes.c_int64, ctypes.c_char * 0
_SIGNATURES: dict[str, Signature] = {
    "model_open": (_POINTER, [_POINTER, _POINTER]),
    "model_close": (None, [_POINTER]),
    "decoder_open": (_POINTER, [_POINTER, _NUMBER]),
    "decoder_close": (None, [_POINTER]),
    "decoder_use_threads": (None, [_POINTER, _NUMBER]),
    "decoder_admit": (_NUMBER, [_POINTER, _POINTER, _POINTER, _NUMBER]),
    "decoder_select": (_NUMBER, [_POINTER, _POINTER, _NUMBER]),
    "decoder_advance": (_NUMBER, [*[_POINTER] * 4]),
    "decoder_read": (_NUMBER, [*[_POINTER] * 3]),
    "decoder_judge": (_NUMBER, [*[_POINTER] * 5]),
    "write_next": (ctypes.c_bool, [_POINTER, _POINTER, _POINTER, _NUMBER, _POINTER]),
    "decoder_write_ahead": (_NUMBER, [*[_POINTER] * 3, _NUMBER, *[_POINTER] * 2, _NUMBER, *[_POINTER] * 2]),
    "best": (None, [_POINTER, _POINTER, _NUMBER, _NUMBER, _NUMBER, _POINTER, _POINTER]),
}

_PREPARED = Libraries(
    {"decoder": Library("native", _SOURCES)},
    _SIGNATURES,
    "the compiled decoder is not used: %s; PyTorch decodes instead, which is slower",
)

available = _PREPARED.prepare
"""Compile or load the functions; return True if that succeeded."""


def functions() -> ctypes.CDLL:
    """Return the compiled functions, or raise `NotCompiled`."""
    if not available() and _PREPARED.failure is not None:
        raise _PREPARED.failure
    return _PREPARED.loaded["decoder"]


_TRIES = 5  # steps per number of threads
_FEW = 8
"""Number of rows up to which threads may wait for each other longer than they compute."""
_SECONDS = 1.0
"""Seconds of steps for which the fastest number of threads is used before all are tried again. The load of the machine
changes, and a step whose threads wait for a processor takes many times longer.
"""


class ThreadTuner:
    """A tuner that measures which number of threads is fastest for steps of few rows; results do not depend on it.

    Such steps alternate between 1, 2, 4 ... threads, up to `most`. The fastest number is used for a while; then all are
    tried again. Steps of more rows use `share` threads, the share of one of several steppers, or `most`.
    """

    def __init__(self, most: int, share: int | None = None) -> None:
        self.most, self.share = most, share or most
        self._begin()

    def _begin(self) -> None:
        counts = [*(1 << i for i in range(self.most.bit_length())), self.most]
        self._best = 1 if self.most == 1 else None
        self._left = _SECONDS
        self._seconds: dict[int, list[float]] = {count: [] for count in counts}

    def threads(self, rows: int) -> int:
        """Return the number of threads for the next step of `rows` rows."""
        if rows > _FEW:
            return self.share
        return self._best or min(self._seconds, key=lambda count: len(self._seconds[count]))

    def record(self, rows: int, threads: int, seconds: float, steps: int = 1) -> None:
        """Record the duration of steps of `rows` rows with `threads` threads."""
        if rows > _FEW or self.most == 1:
            return
        if self._best is None:
            self._seconds[threads].append(seconds / steps)
            if all(len(seconds) >= _TRIES for seconds in self._seconds.values()):
                self._best = min(self._seconds, key=lambda count: statistics.median(self._seconds[count]))
            return
        self._left -= seconds
        if self._left < 0:
            self._begin()


FORMATS = ("float32", "bf16", "int8")
"""Precisions of the weights, in the order of `Format` in products.h."""
_ACTIVATIONS = ("relu", "gelu", "silu", "swiglu", "geglu")
_POSITIONS = ("sinusoidal", "learned", "rotary")


class _Shape(ctypes.Structure):
    """The architecture of the model: the `Shape` of decoder.cpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("format", "d_model", "heads", "kv_heads", "d_ff")),
        *((name, ctypes.c_int64) for name in ("encoder_layers", "decoder_layers", "vocabulary", "cross")),
        *((name, ctypes.c_int64) for name in ("rms", "pre", "final_norm", "embedding_norm", "activation", "positions")),
        ("position_offset", ctypes.c_int64),
        ("position_base", ctypes.c_double),
        *((name, ctypes.c_float) for name in ("epsilon", "embedding_scale")),
    ]


class _Weight(ctypes.Structure):
    """A weight, or null data if the model lacks it: the `Weights` of products.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
    ]


_NEXT = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Weight))


class NativeModel:
    """A packed model. Any number of decoders in different threads may share it."""

    def __init__(self, config: ModelConfig, weights: Mapping[str, NDArray[Any]], precision: str = "float32") -> None:
        """Pack the model's weights, keyed by name; a tied weight appears under its first name. A matrix is float32, or
        int8 with the scales of its rows under its name and `SCALE`. Each is asked for once, and packed before the next.
        """
        self.config, self.precision = config, precision
        self.vocabulary = config.target_vocabulary or 0
        self._kept: list[NDArray[Any]] = []  # C++ reads tables and vectors from these arrays
        names, errors, held = (name for name, _ in possible_weights(config)), list[Exception](), list[NDArray[Any]]()
        is_exact = precision == "float32" or (precision == "int8" and "output" + SCALE in weights)

        @_NEXT
        def read_next(place: Any) -> None:  # C++ would not notice an error
            name = next(names)
            stored = "output" if name.endswith("_embedding.weight") and name not in weights else name
            if errors or stored not in weights or (stored != name and is_exact):
                return  # a tied table is read from the packed output
            try:
                held[:] = [weights[part] for part in (stored, stored + SCALE) if part in weights]
                place[0] = _describe(*held)
            except Exception as error:
                errors.append(error)
            if "_embedding." in name or held[0].ndim == 1:
                self._kept += held

        self.address = functions().model_open(ctypes.byref(_shape(config, precision)), read_next)
        if errors:
            raise errors[0]
        if not self.address:
            raise MemoryError("there is no memory for the packed weights")
        weakref.finalize(self, functions().model_close, self.address)
        self._tuners: dict[tuple[int, int], ThreadTuner] = {}

    def __deepcopy__(self, memo: object) -> "NativeModel":
        return self  # immutable

    def tuner(self, threads: int, share: int) -> ThreadTuner:
        """Return the tuner that all decoders with these numbers share; `share` threads compute steps of many rows."""
        return self._tuners.setdefault((threads, share), ThreadTuner(threads, share))


def _describe(weight: NDArray[Any], scales: NDArray[np.float32] | None = None) -> _Weight:
    wanted = np.float32 if scales is None else np.int8
    assert weight.dtype == wanted and weight.flags.c_contiguous, "weights are given row by row, in float32 or 8 bits"
    shape = weight.shape if weight.ndim == 2 else (1, *weight.shape)
    return _Weight(weight.ctypes.data, None if scales is None else scales.ctypes.data, *shape)


def _shape(config: ModelConfig, precision: str) -> _Shape:
    cross = config.family == "encoder_decoder"
    return _Shape(
        format=FORMATS.index(precision),
        d_model=config.d_model,
        heads=config.heads,
        kv_heads=config.kv_heads or config.heads,
        d_ff=config.d_ff,
        encoder_layers=config.encoder_layers if cross else 0,
        decoder_layers=config.decoder_layers,
        vocabulary=config.target_vocabulary,
        cross=cross,
        rms=config.norm == "rms",
        pre=config.norm_position == "pre",
        final_norm=config.final_norm,
        embedding_norm=config.embedding_norm,
        activation=_ACTIVATIONS.index(config.activation),
        positions=_POSITIONS.index(config.positions),
        epsilon=config.norm_epsilon,
        position_offset=config.position_offset,
        position_base=config.position_base,
        embedding_scale=math.sqrt(config.d_model) if config.embedding_scale else 1.0,
    )


class _SearchArrays(ctypes.Structure):
    """The arrays of `Outputs` and the sizes of the search: the `Written` of search.h."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("tokens", "log_probs", "lengths", "totals", "last", "limits")),
        *((name, ctypes.c_int64) for name in ("capacity", "requests", "width", "end")),
    ]


class _ForbiddenTokens(ctypes.Structure):
    """The `Rules` of search.h."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("banned", "is_open")),
        *((name, ctypes.c_int64) for name in ("count", "until")),
    ]


class _Arrays:
    """A cache of the arrays' description for C++, updated only when an array has moved."""

    def __init__(self) -> None:
        self._described: tuple[np.ndarray | None, ...] = (None,) * 6
        self._search, self.parents = _SearchArrays(), np.empty(0, np.int64)

    def describe(self, outputs: Outputs, limits: Int[np.ndarray, "B"], end: int) -> _SearchArrays:
        outputs.ensure_capacity()
        arrays = (outputs.tokens, outputs.log_probs, outputs.lengths, outputs.totals, outputs.last, limits)
        if not all(map(is_, arrays, self._described)):
            rows, capacity = outputs.tokens.shape
            self._described, self.parents = arrays, np.empty(rows, np.int64)
            self._search = _SearchArrays(*map(_address, arrays), capacity, len(limits), rows // len(limits), end)
        return self._search


class LogitScores:
    """A `StepScores` of logits (R, V), modified in place and valid until the next step, and their log-sum-exp (R)."""

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

    def make_certain(self, rows: Int[np.ndarray, "Q"], tokens: Int[np.ndarray, "Q"]) -> None:
        self.logits[rows, tokens] = self.norms[rows]

    def best(self, count: int) -> TopTokens:
        rows, vocabulary = self.logits.shape
        count = min(count, vocabulary)
        best = TopTokens(np.empty((rows, count), np.float32), np.empty((rows, count), np.int64))
        functions().best(*map(_address, (self.logits, self.norms)), rows, vocabulary, count, *map(_address, best))
        return best

    def write_next(self, outputs: Outputs, limits: Int[np.ndarray, "B"], end: int) -> Int[np.ndarray, "R"] | None:
        search, parents = self._arrays.describe(outputs, limits, end), self._arrays.parents
        made = _address(self.logits), _address(self.norms), self.logits.shape[1]
        if not functions().write_next(ctypes.byref(search), *made, _address(parents)):
            return None
        outputs.count_tokens(1)
        return parents

    def log_probs(self) -> Float[np.ndarray, "R V"]:
        return self.logits - self.norms[:, None]

    def from_log_probs(self, log_prob: Float[np.ndarray, "R V"]) -> "LogitScores":
        damaged = np.isnan(log_prob).any(1)  # a search detects NaN by the norms
        return LogitScores(log_prob, np.where(damaged, np.float32(np.nan), np.float32(0)))


class NativeStepper:
    """A stepper of a packed model. Only one thread at a time may use it; its calls release Python's lock.

    The results of a row are bit for bit the same in any batch. A language model reads its sources when they are
    admitted.
    """

    def __init__(self, model: NativeModel, threads: int = 1, steppers: int = 1) -> None:
        """Create one of `steppers` steppers that share these threads; for few rows it may use all of them."""
        self.model, self.rows = model, 0
        self._tuner, self._threads = model.tuner(threads, max(1, threads // steppers)), threads
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
        self._use_threads(self._tuner.threads(len(ids)))
        lengths = np.array([len(source) for source in sources], np.int64)
        _done(self._functions.decoder_admit(self._decoder, _address(ids), _address(lengths), len(lengths)))
        if self.model.config.family == "language_model":
            counts = np.concatenate([np.zeros(self.rows, np.int64), lengths])
            _done(self._functions.decoder_read(self._decoder, _address(ids), _address(counts)))
        self.rows += len(lengths)

    def advance(self, token: Int[np.ndarray, "R"]) -> LogitScores:
        assert len(token) == self.rows, "every row needs a token"
        self._prepare()
        start = time.perf_counter()
        _done(self._functions.decoder_advance(self._decoder, _address(token), *self._made))
        self._tuner.record(self.rows, self._threads, time.perf_counter() - start)
        return LogitScores(self._logits[: self.rows], self._norms[: self.rows], self._arrays)

    def write_ahead(
        self, outputs: Outputs, limits: Int[np.ndarray, "B"], end: int, rules: RulesOfAllRows, most: int
    ) -> tuple[int, LogitScores]:
        """Advance and write as long as `write_next` would, in at most `most` steps. Return the number of these steps,
        and the scores of the step after them.
        """
        search, parents = self._arrays.describe(outputs, limits, end), self._arrays.parents
        (banned, is_open), count = rules, ctypes.c_int64()
        open_tokens = None if is_open is None else _address(is_open)
        forbidden = _ForbiddenTokens(_address(banned), open_tokens, len(banned), NotBlank.until)
        task = ctypes.byref(search), ctypes.byref(forbidden), min(most, outputs.room)
        self._prepare()
        made = *self._made, self.model.vocabulary, _address(parents), ctypes.byref(count)
        start = time.perf_counter()
        _done(self._functions.decoder_write_ahead(self._decoder, *task, *made))
        self._tuner.record(self.rows, self._threads, time.perf_counter() - start, count.value + 1)
        outputs.count_tokens(count.value)
        return count.value, LogitScores(self._logits[: self.rows], self._norms[: self.rows], self._arrays)

    def _prepare(self) -> None:
        """Provide memory for the scores of all rows, and the threads for a step."""
        if self.rows > len(self._norms):
            # Allocating memory in every step would cost more than the step.
            self._logits = np.empty((self.rows, self.model.vocabulary), np.float32)
            self._norms = np.empty(self.rows, np.float32)
            self._made = _address(self._logits), _address(self._norms)
        self._use_threads(self._tuner.threads(self.rows))

    def _use_threads(self, count: int) -> None:
        if count != self._threads:
            self._functions.decoder_use_threads(self._decoder, count)
            self._threads = count

    def score(
        self, sources: Sequence[Sequence[int]], inputs: Sequence[Sequence[int]], labels: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "M"]:
        self.admit(sources)
        counts = np.array([len(ids) for ids in labels], np.int64)
        fed, label = (np.fromiter(chain.from_iterable(rows), np.int64) for rows in (inputs, labels))
        log_probs = np.empty(len(label), np.float32)
        _done(self._functions.decoder_judge(self._decoder, *map(_address, (fed, counts, label, log_probs))))
        self.select(np.empty(0, np.int64))
        return log_probs

    def select(self, row: Int[np.ndarray, "R2"]) -> None:
        _done(self._functions.decoder_select(self._decoder, _address(row), len(row)))
        self.rows = len(row)


def _address(array: np.ndarray) -> int:
    """Return the address of a contiguous array that may be written to; several times as fast as `array.ctypes.data`."""
    return ctypes.addressof(_NOTHING.from_buffer(array))  # pyright: ignore[reportArgumentType]


def _done(status: int) -> None:
    """Raise the error of a `Status` of decoder.cpp."""
    if status == 1:
        raise MemoryError("there is no memory for the active rows")
    if status == 2:
        raise IndexError("a token or a position is beyond those that the model has")
    assert not status, "the compiled decoder failed"
