"""Recorded functions: called here, and recorded once on a GPU, which a small class replaces."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.recording import WARM_UP, Recorded

GPU = torch.device("cuda")


class Graph:
    """A CUDA graph that does again what was done during the recording."""

    recording: "Graph | None" = None

    def __init__(self) -> None:
        self.work: list[Any] = []
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        for function in self.work:
            function()


@contextmanager
def record(graph: Graph, capture_error_mode: str) -> Iterator[None]:
    assert capture_error_mode == "thread_local"
    Graph.recording = graph
    yield
    Graph.recording = None


class Stream:
    def __init__(self, *_: Any) -> None: ...

    def wait_stream(self, stream: "Stream") -> None: ...


@contextmanager
def on(stream: Stream) -> Iterator[None]:
    yield


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CUDAGraph": Graph, "graph": record, "Stream": Stream, "stream": on}.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    empty_like = torch.empty_like
    monkeypatch.setattr(torch, "empty_like", lambda x, device: empty_like(x))


@pytest.mark.usefixtures("gpu")
def test_the_first_calls_run_the_next_is_recorded_and_all_others_replay() -> None:
    total, calls = torch.zeros(2), 0
    doubled = torch.zeros(2)

    def add(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1

        def work() -> None:
            total.add_(x)
            doubled.copy_(2 * x)

        if Graph.recording is not None:
            Graph.recording.work.append(work)  # a recording computes nothing
        else:
            work()
        return doubled

    recorded, inputs = Recorded(add, GPU), [torch.tensor([1.0, n]) for n in range(8)]
    for number, x in enumerate(inputs):
        assert recorded.is_recorded == (number > WARM_UP)
        assert torch.equal(recorded(x), 2 * x)
    assert calls == WARM_UP + 1 and torch.equal(total, sum(inputs, torch.zeros(2)))


def test_elsewhere_a_function_is_called() -> None:
    recorded = Recorded(lambda x, y: x + y, torch.device("cpu"))
    assert recorded(torch.ones(1), torch.ones(1)) == 2 and not recorded.is_recorded
