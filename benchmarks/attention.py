"""Is attention on packed rows faster than on padded sentences, and from which length is torch's fused attention faster?

    python benchmarks/attention.py [--tokens 4096] [--rounds 7] [--out results.json]

Measures forward and backward from rows to rows: four heads of 64, with and without a causal mask, the same number of
tokens at every length. The three ways take turns: our compiled one, the equation on padded sentences, and torch's fused
attention on padded sentences. A ratio above 1 means that ours is faster. `model/attention_backends.py` chooses by this
table.
"""

import argparse
import json
import time

import torch
from command_line import command_line, figures_file

from dragoman.compiled import kernels
from dragoman.evaluating.speed import MedianRange
from dragoman.memory import keep_freed_memory
from dragoman.model.attention_backends import BACKENDS, AttentionContext, Backend
from dragoman.model.packing import Packing
from dragoman.system import describe, machine

LENGTHS = (16, 32, 64, 128, 256, 512, 1_024, 2_048)
HEADS, WIDTH = 4, 64
DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}


def ratios(length: int, tokens: int, dtype: torch.dtype, causal: bool, rounds: int) -> dict[str, list[float]]:
    """Seconds of each padded way over seconds of the compiled one, round by round. The first round warms up."""
    sentences = max(1, tokens // length)
    packing = Packing.of([length - number % (length // 4) for number in range(sentences)])
    rows = torch.randn(packing.rows, 3 * HEADS, WIDTH).to(dtype).requires_grad_()
    gradient = torch.randn(packing.rows, HEADS, WIDTH).to(dtype)

    def seconds(backend: Backend) -> float:
        start = time.perf_counter()
        BACKENDS[backend](rows, None, AttentionContext(HEADS, packing, causal)).backward(gradient)
        return time.perf_counter() - start

    found: dict[str, list[float]] = {"equation": [], "fused": []}
    for _ in range(rounds + 1):
        compiled = seconds("compiled")
        found["equation"].append(seconds("equation") / compiled)
        found["fused"].append(seconds("fused") / compiled)
    return {name: ratios[1:] for name, ratios in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=4_096)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    if not kernels.prepare():
        parser.error("there are no compiled kernels on this machine")
    results = []
    print(f"{'':<10}{'':<8}{'':<10}" + "".join(f"{length:>7}" for length in LENGTHS))
    for precision, dtype in DTYPES.items():
        for causal in (True, False):
            found = [ratios(length, options.tokens, dtype, causal, options.rounds) for length in LENGTHS]
            for way in found[0]:
                spreads = [MedianRange.from_values(each[way]) for each in found]
                line = "".join(f"{spread.median:>7.2f}" for spread in spreads)
                print(f"{precision:<10}{'causal' if causal else 'whole':<8}{way:<10}{line}")
                results += [
                    {"precision": precision, "causal": causal, "way": way, "length": length, "ratio": spread._asdict()}
                    for length, spread in zip(LENGTHS, spreads, strict=True)
                ]
    print(f"\n{describe()}; median of {options.rounds} rounds, {options.tokens:,} tokens")
    if options.out:
        facts = {"machine": machine(), "command": command_line(), "results": results}
        options.out.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
