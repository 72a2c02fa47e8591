"""The weights of a translation or language model, packed once for the decoder in C++."""

import ctypes
import math
import weakref
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from dragoman.model.config import ModelConfig
from dragoman.native.functions import functions
from dragoman.native.pace import Pace

FORMATS = ("float32", "bf16", "int8")
"""The precisions of the weights, as `Format` of products.h numbers them."""
_ACTIVATIONS = ("relu", "gelu", "silu", "swiglu", "geglu")
_POSITIONS = ("sinusoidal", "learned", "rotary")


class _Shape(ctypes.Structure):
    """What the model looks like: the `Shape` of model.cpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("format", "d_model", "heads", "kv_heads", "d_ff")),
        *((name, ctypes.c_int64) for name in ("encoder_layers", "decoder_layers", "vocabulary", "cross")),
        *((name, ctypes.c_int64) for name in ("rms", "pre", "final_norm", "embedding_norm", "activation", "positions")),
        *((name, ctypes.c_float) for name in ("epsilon", "position_base", "embedding_scale")),
    ]


class _Given(ctypes.Structure):
    """One weight, or none: the `Weights` of products.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
    ]


class NativeModel:
    """A packed model. Any number of decoders may share it, each in a thread of its own."""

    def __init__(
        self, config: ModelConfig, weights: Mapping[str, NDArray[np.float32]], precision: str = "float32"
    ) -> None:
        """`weights` are those of the model by their names, a tied one under its first; they are read, and partly kept.

        Raises:
            NotCompiled: there is no compiler, or it failed.
        """
        self.config, self.precision = config, precision
        self.vocabulary = config.target_vocabulary or 0
        names = weight_names(config)
        given = (_Given * len(names))(*(_given(weights.get(name)) for name in names))
        self._kept = weights  # C++ packs the matrices, and reads tables and vectors where they lie
        self.address = functions().model_open(ctypes.byref(_shape(config, precision)), given)
        if not self.address:
            raise MemoryError("there is no memory for the packed weights")
        weakref.finalize(self, functions().model_close, self.address)
        self._paces: dict[int, Pace] = {}

    def __deepcopy__(self, memo: object) -> "NativeModel":
        return self  # it never changes

    def pace(self, threads: int) -> Pace:
        """That of all decoders with so many threads."""
        return self._paces.setdefault(threads, Pace(threads))


def weight_names(config: ModelConfig) -> list[str]:
    """The weights in the order in which model.cpp reads them. Of those that only some settings have, all are listed."""
    return list(_names(config))


def _names(config: ModelConfig) -> Iterator[str]:
    cross = config.family == "encoder_decoder"
    if cross:
        yield from _stack("encoder", "source", "output" if config.tied == "all" else None, config.encoder_layers, False)
    yield from _stack("decoder", "target", None if config.tied == "none" else "output", config.decoder_layers, cross)
    for layer in range(config.decoder_layers if cross else 0):
        yield from _matrices(f"decoder.blocks.{layer}.cross_attention", "key", "value")
    yield from ("output", "output_bias")


def _stack(stack: str, side: str, table: str | None, layers: int, cross: bool) -> Iterator[str]:
    embedding = f"{side}_embedding"
    yield from (table or f"{embedding}.weight", f"{embedding}.positions.weight", *_norm(embedding))
    for layer in range(layers):
        block = f"{stack}.blocks.{layer}"
        yield from _norm(f"{block}.self_residual")
        yield from _matrices(f"{block}.self_attention", "query", "key", "value", "output")
        if cross:
            yield from _norm(f"{block}.cross_residual")
            yield from _matrices(f"{block}.cross_attention", "query", "output")
        yield from _norm(f"{block}.feed_residual")
        yield from _matrices(f"{block}.feed_forward", "gate", "inner", "outer")
    yield from (f"{stack}.final_norm.weight", f"{stack}.final_norm.bias")


def _norm(module: str) -> tuple[str, str]:
    return f"{module}.norm.weight", f"{module}.norm.bias"


def _matrices(module: str, *names: str) -> Iterator[str]:
    for name in names:
        yield from (f"{module}.{name}.weight", f"{module}.{name}.bias")


def _given(weight: NDArray[np.float32] | None) -> _Given:
    if weight is None:
        return _Given()
    assert weight.dtype == np.float32 and weight.flags.c_contiguous, "weights are given as float32, row by row"
    return _Given(weight.ctypes.data, *(weight.shape if weight.ndim == 2 else (1, *weight.shape)))


def _shape(config: ModelConfig, precision: str) -> _Shape:
    cross = config.family == "encoder_decoder"
    return _Shape(
        *(FORMATS.index(precision), config.d_model, config.heads, config.kv_heads or config.heads, config.d_ff),
        *(config.encoder_layers if cross else 0, config.decoder_layers, config.target_vocabulary, cross),
        *(config.norm == "rms", config.norm_position == "pre", config.final_norm, config.embedding_norm),
        *(_ACTIVATIONS.index(config.activation), _POSITIONS.index(config.positions)),
        *(config.norm_epsilon, config.position_base, math.sqrt(config.d_model) if config.embedding_scale else 1.0),
    )
