"""What does one sentence take from Python, in a loop, where nobody has set a variable?

    python benchmarks/one_by_one.py MODEL TEXT [--lines 100] [--rounds 5] [--threads 2]

TEXT has one sentence a line. Every turn is a new Python process: without any variable of OpenMP's, or with those that
the command line sets for itself. The first sentences warm it up.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from dragoman.system import WAITING, describe

LOOP = """
import sys, time
from dragoman.inference.translator import Translator

model, threads, *texts = sys.argv[1:]
translator = Translator.load(model, device="cpu", threads=int(threads) or None)
for text in texts[:3] + texts:
    start = time.perf_counter()
    translator.translate([text])
    print(time.perf_counter() - start)
"""


def turn(model: Path, texts: list[str], threads: int, variables: dict[str, str]) -> float:
    """Milliseconds of the median sentence."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    command = [sys.executable, "-c", LOOP, str(model), str(threads), *texts]
    done = subprocess.run(command, env=plain | variables, capture_output=True, text=True, check=True)
    return 1000 * statistics.median(float(line) for line in done.stdout.split()[3:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as usual")
    options = parser.parse_args()
    lines = options.text.read_text(encoding="utf-8").splitlines()
    texts = lines[:: max(1, len(lines) // options.lines)][: options.lines]
    turns = [
        [turn(options.model, texts, options.threads, variables) for variables in ({}, WAITING)]
        for _ in range(options.rounds)
    ]
    for name, taken in zip(("plain Python", "as the command line"), zip(*turns, strict=True), strict=True):
        print(f"{name:20} p50 {statistics.median(taken):6.1f} ms ({min(taken):.1f} to {max(taken):.1f})")
    ratios = [plain / patient for plain, patient in turns]
    print(f"{'ratio':20} {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})\n{describe()}")


if __name__ == "__main__":
    main()
