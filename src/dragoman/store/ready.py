"""A stored model made ready for use: on a device, in a precision, with its kernels."""

from typing import Generic, NamedTuple

import torch

from dragoman import kernels
from dragoman.machine import choose_device, choose_precision
from dragoman.model.families import Model, prepare_for_decoding
from dragoman.progress import Progress

_DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}


class Ready(NamedTuple, Generic[Model]):
    """A model that only computes, and where and in which numbers it does."""

    model: Model
    device: str
    precision: str


def make_ready(model: Model, device: str, precision: str, progress: Progress) -> Ready[Model]:
    """Chooses device and precision where they are left open, and prepares the kernels; `model` itself stays as it is.

    Raises:
        ConfigError: a device or precision that cannot be had.
    """
    device, _ = choose_device(device)
    precision, _ = choose_precision(precision, device)
    if device == "cpu":
        kernels.prepare(progress)
    return Ready(prepare_for_decoding(model, device, _DTYPES[precision]), device, precision)
