"""Is keyed dropout cheaper than torch's own `F.dropout`, forward and backward?

    python benchmarks/dropout.py [--rounds 20] [--threads 2]

Both take turns. The ratio is of the medians.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.compiled import kernels
from dragoman.model.dropout import DropoutKey, drop
from dragoman.system import describe

SHAPES = ((2048, 256), (4096, 1024))
RATE = 0.1


def milliseconds(way: Callable[[Tensor], Tensor], x: Tensor) -> float:
    start = time.perf_counter()
    way(x).backward(x.detach())
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    kernels.prepare()
    print(f"{'shape':<14}{'type':<10}{'keyed, ms':>11}{'F.dropout, ms':>15}{'times cheaper':>15}")
    for dtype in (torch.float32, torch.bfloat16):
        for shape in SHAPES:
            x, dropout_key = torch.randn(shape).to(dtype).requires_grad_(), DropoutKey(1, torch.arange(shape[0]))
            ways = (
                lambda x, dropout_key=dropout_key: drop(x, RATE, "dropout", dropout_key),
                lambda x: F.dropout(x, RATE),
            )
            taken = [[milliseconds(way, x) for way in ways] for _ in range(options.rounds + 1)][1:]
            keyed, drawn = (statistics.median(times) for times in zip(*taken, strict=True))
            kind = str(dtype).removeprefix("torch.")
            print(f"{shape!s:<14}{kind:<10}{keyed:>11.2f}{drawn:>15.2f}{drawn / keyed:>15.1f}")
    print(f"\n{describe()}")


if __name__ == "__main__":
    main()
