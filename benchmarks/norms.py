"""Is our RMSNorm faster than torch's own, and what does LayerNorm take?

    python benchmarks/norms.py [--rows 4096] [--width 256] [--rounds 15] [--out results.json]

Forward and backward together, with the gradient of the weight: `dragoman.model.layers.RMSNorm` against `F.rms_norm`,
and LayerNorm beside them. They take turns; the ratio is of each round by itself.
"""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.evaluating.speed import Spread
from dragoman.machine import describe, machine
from dragoman.model.layers import LayerNorm, RMSNorm

EPSILON = 1e-5
BASELINE = "F.rms_norm"


def contenders(width: int, dtype: torch.dtype) -> dict[str, Callable[[Tensor], Tensor]]:
    weight = torch.ones(width, dtype=dtype, requires_grad=True)
    return {
        BASELINE: lambda x: F.rms_norm(x, weight.shape, weight, EPSILON),
        "RMSNorm": RMSNorm(width, EPSILON).to(dtype),
        "LayerNorm": LayerNorm(width, EPSILON).to(dtype),
    }


def milliseconds(function: Callable[[Tensor], Tensor], x: Tensor, gradient: Tensor) -> float:
    x.grad = None
    start = time.perf_counter()
    function(x).backward(gradient)
    return 1000 * (time.perf_counter() - start)


def measure(rows: int, width: int, dtype: torch.dtype, rounds: int) -> dict[str, dict[str, Spread]]:
    """Milliseconds and ratios of each way, without the first round."""
    x = torch.randn(rows, width).to(dtype).requires_grad_()
    gradient = torch.randn(rows, width).to(dtype)
    functions = contenders(width, dtype)
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(rounds + 1):
        for name in list(functions)[:: -1 if number % 2 else 1]:
            taken[name].append(milliseconds(functions[name], x, gradient))
    base = taken[BASELINE][1:]
    return {
        name: {
            "milliseconds": Spread.of(values[1:]),
            "times_faster": Spread.of([theirs / ours for theirs, ours in zip(base, values[1:], strict=True)]),
        }
        for name, values in taken.items()
    }


def show(results: dict[str, dict[str, dict[str, Spread]]]) -> None:
    print(f"{'':<24}{'ms':>9}{'range':>19}{'times faster':>14}{'range':>15}")
    for dtype, found in results.items():
        for name, figures in found.items():
            ms, ratio = figures["milliseconds"], figures["times_faster"]
            print(
                f"{dtype:<10}{name:<14}{ms.median:>9.2f}{f'{ms.low:.2f} - {ms.high:.2f}':>19}"
                f"{ratio.median:>14.2f}{f'{ratio.low:.2f} - {ratio.high:.2f}':>15}"
            )


def plain(results: dict[str, dict[str, dict[str, Spread]]]) -> dict[str, Any]:
    """The same for JSON, with the names of the figures."""
    return {
        dtype: {name: {key: spread._asdict() for key, spread in figures.items()} for name, figures in found.items()}
        for dtype, found in results.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=4_096)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    results = {
        name: measure(options.rows, options.width, dtype, options.rounds)
        for name, dtype in (("float32", torch.float32), ("bf16", torch.bfloat16))
    }
    print(f"{options.rows:,} rows of {options.width:,}, forward and backward\n")
    show(results)
    print(f"\n{describe()}")
    if options.out:
        facts = {"machine": machine(), "command": shlex.join(sys.argv), "rows": options.rows, "width": options.width}
        options.out.write_text(json.dumps({**facts, "results": plain(results)}, indent=2) + "\n")


if __name__ == "__main__":
    main()
