"""What is each compiled kernel worth? A whole training step with it, and with its plain twin in its place.

    python benchmarks/kernels.py [--data train.en train.de] [--rounds 12] [--batches 4] [--out results.json]

All ways take turns in one process on the same batches; a ratio is of each round by itself. The interval is a bootstrap
of the median ratio, 95 %. A kernel whose interval does not stay above 1 is not worth its lines.
"""

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from peers.contest import Contender, Shape, Way, timed
from peers.own import build
from peers.worker import Run
from training import MULTI30K, encode

from dragoman.machine import describe, gemm_rate, machine
from dragoman.memory import keep_freed_memory
from dragoman.model import kernels

ALL = "all of them"


def measure(contender: Contender, batches: int, rounds: int) -> dict[str, list[float]]:
    """Seconds without each kernel over seconds with all, round by round; the first round only warms up."""
    ways = {"": (), **{name: (name,) for name in kernels.KERNELS}, ALL: kernels.KERNELS}
    ratios: dict[str, list[float]] = {name: [] for name in ways if name}
    for number in range(rounds + 1):
        seconds = {}
        for name in list(ways)[:: -1 if number % 2 else 1]:
            with kernels.without(*ways[name]):
                seconds[name], _ = timed(contender, batches)
        for name, found in ratios.items():
            found.append(seconds[name] / seconds[""])
    return {name: found[1:] for name, found in ratios.items()}


def interval(ratios: list[float]) -> tuple[float, float]:
    """Where the median lies in 95 of 100 resamplings of the rounds."""
    chance = np.random.default_rng(1)
    medians = np.median(chance.choice(ratios, (2_000, len(ratios))), axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=[f"{MULTI30K}/train.en", f"{MULTI30K}/train.de"])
    parser.add_argument("--size", default="small", choices=["tiny", "small", "base", "big"])
    parser.add_argument("--preset", default="modern", choices=["paper", "modern"])
    parser.add_argument("--precision", default="bf16", choices=["float32", "bf16"])
    parser.add_argument("--vocabulary-size", type=int, default=8_000)
    parser.add_argument("--batch-tokens", type=int, default=4_096)
    parser.add_argument("--batches", type=int, default=4, help="batches a round")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    if not kernels.available():
        parser.error("there are no compiled kernels on this machine")
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as name:
        shape = Shape(options.size, encode(options.data, options.vocabulary_size, Path(name)), everywhere=False)
        run = Run(Path(name) / "corpus", options.batch_tokens, options.batches, shape, options.threads)
        way: Way = "bf16 weights" if options.precision == "bf16" else "float32"
        contender = build(run.load(), shape, way, options.preset)
        ratios = measure(contender, options.batches, options.rounds)
    print(f"{'a step without':<20}{'takes times':>12}{'95 % interval':>18}")
    results = {name: {"ratio": statistics.median(found), "interval": interval(found)} for name, found in ratios.items()}
    for name, found in results.items():
        low, high = found["interval"]
        print(f"{name:<20}{found['ratio']:>12.3f}{f'{low:.3f} - {high:.3f}':>18}")
    print(f"\n{describe()}, {gemm_rate(options.precision):,.0f} GFLOP/s in {options.precision}")
    if options.out:
        facts = {"machine": machine(), "command": shlex.join(sys.argv), "rounds": options.rounds, "results": results}
        options.out.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
