"""At which length does torch's fused attention beat two matrix products with a softmax between them?

    python benchmarks/attention.py [--tokens 4096] [--rounds 7] [--out results.json]

Forward and backward of the mixing alone, heads of 64, a causal mask and one of keys, the same number of tokens at every
length; both ways take turns. Above 1 the fused kernel is faster: `model/attention.py` chooses by this table.
"""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from dragoman.evaluating.speed import Spread
from dragoman.machine import describe, machine
from dragoman.model.attention import attend, fused_attend
from dragoman.model.decoder import causal
from dragoman.model.packing import Packing

LENGTHS = (16, 32, 64, 128, 256, 512, 1_024)
HEADS, WIDTH = 4, 64
DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}


def ratios(length: int, tokens: int, dtype: torch.dtype, mask: str, rounds: int) -> list[float]:
    """Seconds of the plain way over seconds of the fused one, round by round; the first round only warms up."""
    sentences = max(1, tokens // length)
    packing = Packing.of([length - number % (length // 4) for number in range(sentences)])
    visible = causal(packing) if mask == "causal" else packing.visible[:, None, None]
    shape = sentences, HEADS, packing.longest, WIDTH
    query, key, value = (torch.randn(shape).to(dtype).requires_grad_() for _ in range(3))
    gradient = torch.randn(shape).to(dtype)

    def seconds(way: Callable[[], Tensor]) -> float:
        start = time.perf_counter()
        way().backward(gradient)
        return time.perf_counter() - start

    plain, fused = lambda: attend(query, key, value, visible)[0], lambda: fused_attend(query, key, value, visible)
    return [seconds(plain) / seconds(fused) for _ in range(rounds + 1)][1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=4_096)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = []
    print(f"{'':<10}{'mask':<8}" + "".join(f"{length:>7}" for length in LENGTHS))
    for precision, dtype in DTYPES.items():
        for mask in ("causal", "keys"):
            found = [Spread.of(ratios(length, options.tokens, dtype, mask, options.rounds)) for length in LENGTHS]
            print(f"{precision:<10}{mask:<8}" + "".join(f"{spread.median:>7.2f}" for spread in found))
            results += [
                {"precision": precision, "mask": mask, "length": length, "ratio": spread._asdict()}
                for length, spread in zip(LENGTHS, found, strict=True)
            ]
    print(f"\n{describe()}; median of {options.rounds} rounds, {options.tokens:,} tokens")
    if options.out:
        facts = {"machine": machine(), "command": shlex.join(sys.argv), "results": results}
        options.out.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
