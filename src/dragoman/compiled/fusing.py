"""Functions of tensors that `torch.compile` turns into a few kernels, in steps that a GPU records.

Compiled are only small functions that pass over rows (dropout, gates, rotations, the loss): matrix products and
attention have good kernels already. So compiling takes seconds, and a step has a fraction of its kernels. Elsewhere a
function runs as it is written.
"""

import logging
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from typing import ParamSpec, TypeVar

import torch

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_WHY_NOT = "functions are not fused (%s); the same arithmetic takes more kernels"


FUSED_ON = {"cuda"}
"""Types of devices on which functions are fused."""


class _Fusing:
    """The state of fusing, for all threads: backward passes run in other threads."""

    active = False
    failed = False


def fusible(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that is compiled if it is called inside `fusing`. Its shapes must rarely change."""
    compiled: list[Callable[P, T]] = []

    @wraps(function)
    def fused(*args: P.args, **kwargs: P.kwargs) -> T:
        if not _Fusing.active or _Fusing.failed:
            return function(*args, **kwargs)
        from torch._dynamo.exc import TorchDynamoException  # takes a second

        if not compiled:
            compiled.append(torch.compile(function, dynamic=False))
        try:
            return compiled[0](*args, **kwargs)
        except TorchDynamoException as error:
            _Fusing.failed = True
            reason = getattr(error, "inner_exception", error)  # its wrapper names the compiler alone
            log.warning(_WHY_NOT, str(reason).strip().partition("\n")[0])
            return function(*args, **kwargs)

    return fused


@contextmanager
def fusing(device: torch.device) -> Generator[None]:
    """Compile fusible functions inside the block, if the device is a GPU and this machine can compile for it."""
    if device.type not in FUSED_ON:
        yield
        return
    if device.type == "cuda" and not _Fusing.failed and find_spec("triton") is None:
        _Fusing.failed = True
        log.warning(_WHY_NOT, "triton is not installed")
    before, _Fusing.active = _Fusing.active, True
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="torch")  # the compiler's, about itself
            yield
    finally:
        _Fusing.active = before
