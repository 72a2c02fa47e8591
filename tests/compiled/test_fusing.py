"""Fused functions: compiled inside `fusing` alone, and as they are written where they cannot be compiled."""

import logging
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import TorchDynamoException

from dragoman.compiled import fusing
from dragoman.compiled.fusing import fusible

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusing._Fusing, "failed", False)
    monkeypatch.setattr(fusing, "find_spec", lambda _: object())


def double(x: Tensor) -> Tensor:
    """Return 2 x."""
    return 2 * x


def test_a_function_is_compiled_once_and_only_inside_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    monkeypatch.setattr(
        torch, "compile", lambda function, dynamic: compiled.append(dynamic) or (lambda y: function(y) + 1)
    )
    function = fusible(double)
    x = torch.ones(1)
    assert function(x) == 2 and not compiled
    with fusing.fusing(CPU):
        assert function(x) == 2 and not compiled, "a processor has its own kernels"
    for _ in range(2):
        with fusing.fusing(GPU):
            assert function(x) == 3
        assert function(x) == 2 and compiled == [False]


def test_where_compiling_fails_functions_run_as_written_and_one_warning_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Tensor) -> Tensor:
        raise TorchDynamoException("no C compiler\nand much more")

    monkeypatch.setattr(torch, "compile", lambda *_, **__: fail)
    with fusing.fusing(GPU), caplog.at_level(logging.WARNING):
        assert fusible(double)(torch.ones(1)) == 2 == fusible(double)(torch.ones(1))
    assert [record.getMessage() for record in caplog.records] == [
        "functions are not fused (no C compiler); the same arithmetic takes more kernels"
    ]


def test_without_triton_a_gpu_runs_functions_as_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fusing, "find_spec", lambda _: None)
    monkeypatch.setattr(torch, "compile", None)
    for _ in range(2):
        with fusing.fusing(GPU):
            assert fusible(double)(torch.ones(1)) == 2
    (record,) = caplog.records
    assert "triton is not installed" in record.getMessage()


def test_another_error_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Tensor) -> Tensor:
        raise MemoryError

    monkeypatch.setattr(torch, "compile", lambda *_, **__: fail)
    with fusing.fusing(GPU), pytest.raises(MemoryError):
        fusible(double)(torch.ones(1))
