"""Functions of tensors that a GPU records once and then replays.

A step of a small model is hundreds of kernels, and to queue them from Python takes longer than to compute them. A CUDA
graph holds all of them, and is queued by one call. Elsewhere than on a CUDA device, a function is just called.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor

R = TypeVar("R")

WARM_UP = 3
"""Calls before the recording, in which torch and its libraries choose kernels and allocate what they keep."""


_RECORDING = Lock()
"""Held while a function is recorded: CUDA records one at a time."""


class Recorded(Generic[R]):
    """A function of tensors that always have the same shapes, recorded by its first calls on a CUDA device.

    The function may change other tensors, such as weights or caches, but only in place. What it reads besides its
    arguments is read from the same memory in every call, and Python numbers keep the values of the recording. It must
    not wait for the device (`item`, `nonzero`, a copy to the host).

    The arguments may be on the host, best in page-locked memory. The result of a call lies in the same memory as that
    of the call before: copy what has to outlive the next call.
    """

    def __init__(self, function: Callable[..., R], device: torch.device) -> None:
        self.device = device
        self._function = function
        self._arguments: list[Tensor] = []
        self._calls = 0
        self._stream: Any = None
        self._graph: Any = None
        self._result: R | None = None

    @property
    def is_recorded(self) -> bool:
        """True once calls replay the recording."""
        return self._graph is not None

    def __call__(self, *arguments: Tensor) -> R:
        if self.device.type != "cuda":
            return self._function(*(argument.to(self.device) for argument in arguments))
        if not self._arguments:
            self._arguments = [torch.empty_like(argument, device=self.device) for argument in arguments]
        for mine, argument in zip(self._arguments, arguments, strict=True):
            mine.copy_(argument, non_blocking=True)
        if self._graph is None and self._calls < WARM_UP:
            self._calls += 1
            return self._warm_up()
        if self._graph is None:
            self._graph = self._record()
        self._graph.replay()
        return cast("R", self._result)

    def _warm_up(self) -> R:
        """Call the function on a separate stream, as torch asks for before a recording."""
        self._stream, current = self._stream or torch.cuda.Stream(self.device), torch.cuda.current_stream(self.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            result = self._function(*self._arguments)
        current.wait_stream(self._stream)
        return result

    def _record(self) -> Any:
        graph = torch.cuda.CUDAGraph()
        # Other threads may allocate page-locked memory meanwhile.
        with _RECORDING, torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._result = self._function(*self._arguments)
        del self._function  # a method would keep its object alive, and the object this recording
        return graph
