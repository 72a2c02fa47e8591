"""How long do `import dragoman` and `dragoman --help` take? At most 0.4 s is promised.

    python benchmarks/start_up.py [--runs 10] [--json FILE]

The baseline is a Python that does nothing. Every run is a new process, after one to warm the disk's cache.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import dragoman

LIMIT_SECONDS = 0.4
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
    results = {name: measure(arguments, options.runs) for name, arguments in QUESTIONS.items()}
    machine = f"Python {platform.python_version()}, {platform.platform()}, {os.cpu_count()} cores"
    print(f"{machine}, dragoman {dragoman.__version__}")
    print(f"{'':24}{'median s':>10}{'spread s':>10}")
    for name, seconds in results.items():
        print(f"{name:24}{statistics.median(seconds):10.3f}{max(seconds) - min(seconds):10.3f}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "version": dragoman.__version__, "seconds": results}))
    slow = [name for name, seconds in results.items() if statistics.median(seconds) > LIMIT_SECONDS]
    sys.exit(f"over {LIMIT_SECONDS} s: {', '.join(slow)}" if slow else 0)


def measure(arguments: list[str], runs: int) -> list[float]:
    return [once(arguments) for _ in range(runs + 1)][1:]


def once(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
