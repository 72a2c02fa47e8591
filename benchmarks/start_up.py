"""How long until something happens, and is it within the limits?

    python benchmarks/start_up.py [--runs 10] [--json FILE]

Limits: 0.4 s to import and to show help; to the first training step, 30 s with kernels to compile and 10 s with kernels
in the cache. The baseline is a Python that does nothing. Every run is a new process, after one that warms the disk's
cache. Training uses the built-in phrasebook, prepared beforehand; learning its vocabulary and encoding it are timed.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import dragoman

LIMIT_SECONDS, COLD_SECONDS, WARM_SECONDS = 0.4, 30.0, 10.0
QUESTIONS = {
    "python": ["-c", "pass"],
    "import dragoman": ["-c", "import dragoman"],
    "dragoman --help": ["-m", "dragoman", "--help"],
    "dragoman train --help": ["-m", "dragoman", "train", "--help"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, Sequence[float]] = {
        name: measure(arguments, options.runs) for name, arguments in QUESTIONS.items()
    }
    cold, warm = zip(*[first_steps() for _ in range(max(1, options.runs // 3))], strict=True)
    results |= {"first step, cold": cold, "first step, warm": warm}
    machine = f"Python {platform.python_version()}, {platform.platform()}, {os.cpu_count()} cores"
    print(f"{machine}, dragoman {dragoman.__version__}")
    print(f"{'':24}{'median s':>10}{'spread s':>10}")
    for name, seconds in results.items():
        print(f"{name:24}{statistics.median(seconds):10.3f}{max(seconds) - min(seconds):10.3f}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "version": dragoman.__version__, "seconds": results}))
    limits = dict.fromkeys(QUESTIONS, LIMIT_SECONDS) | {
        "first step, cold": COLD_SECONDS,
        "first step, warm": WARM_SECONDS,
    }
    slow = [f"{name}: over {limit} s" for name, limit in limits.items() if statistics.median(results[name]) > limit]
    sys.exit(", ".join(slow) or 0)


def measure(arguments: list[str], runs: int) -> list[float]:
    return [once(arguments) for _ in range(runs + 1)][1:]


def once(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def first_steps() -> tuple[float, float]:
    """Seconds to the first step of two runs. Only the second finds compiled kernels."""
    with tempfile.TemporaryDirectory() as folder:
        prepare = ["-m", "dragoman", "prepare-data", "phrasebook", "--folder", f"{folder}/data", "--quiet"]
        subprocess.run([sys.executable, *prepare], stdout=subprocess.DEVNULL, check=True)
        return first_step(Path(folder), "cold"), first_step(Path(folder), "warm")


def first_step(folder: Path, run: str) -> float:
    train = ["-m", "dragoman", "train", str(folder / "data"), "--set", "train.steps=1", "--quiet"]
    metrics = folder / run / "metrics.jsonl"
    start = time.perf_counter()
    training = subprocess.Popen(
        [sys.executable, *train, "--runs", str(folder), "--name", run],
        stdout=subprocess.DEVNULL,
        env=os.environ | {"XDG_CACHE_HOME": str(folder / "cache")},
    )
    while training.poll() is None and not (metrics.is_file() and metrics.stat().st_size):
        time.sleep(0.01)
    seconds = time.perf_counter() - start
    if training.wait():
        sys.exit(f"training ended with {training.returncode}")
    return seconds


if __name__ == "__main__":
    main()
