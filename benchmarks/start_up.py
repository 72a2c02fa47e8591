"""Time to start each command, and its limits.

    python benchmarks/start_up.py [--runs 10] [--model MODEL] [--out FILE]

Limits: 0.4 s to import and to show help; 1 s to translate one text, if there is a model; to the first training step,
30 s with kernels to compile and 10 s with kernels in the cache. The baseline is a Python that does nothing. Every run
is a new process, after one that warms the disk's cache. Training uses the built-in phrasebook, prepared beforehand;
learning its vocabulary and encoding it are timed.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from command_line import markdown, new_parser, write_figures

from dragoman.system import describe

COMMANDS = {
    "python": ["-c", "pass"],
    "import dragoman": ["-c", "import dragoman"],
    "dragoman --help": ["-m", "dragoman", "--help"],
    "dragoman train --help": ["-m", "dragoman", "train", "--help"],
}
COLD, WARM = "first step, cold", "first step, warm"
TRANSLATE = "dragoman translate"
LIMITS = dict.fromkeys(COMMANDS, 0.4) | {TRANSLATE: 1.0, COLD: 30.0, WARM: 10.0}
"""Seconds."""


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--model", help="a model from English, with which one text is translated")
    options = parser.parse_args()
    commands = dict(COMMANDS)
    if options.model:
        commands[TRANSLATE] = ["-m", "dragoman", "translate", options.model, "Where is the station?", "--quiet"]
    seconds = {name: [once(arguments) for _ in range(options.runs + 1)][1:] for name, arguments in commands.items()}
    pairs = [first_steps() for _ in range(max(1, options.runs // 3))]
    seconds |= {COLD: [cold for cold, _ in pairs], WARM: [warm for _, warm in pairs]}
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    rows = [[name, f"{medians[name]:.3f}", f"{max(times) - min(times):.3f}"] for name, times in seconds.items()]
    print(markdown(["start", "median, s", "spread, s"], rows), f"\n{describe()}")
    write_figures(options.out, seconds=seconds)
    slow = [f"{name}: over {limit} s" for name, limit in LIMITS.items() if medians.get(name, 0.0) > limit]
    sys.exit(", ".join(slow) or 0)


def once(arguments: list[str]) -> float:
    """Return the seconds of one process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def first_steps() -> tuple[float, float]:
    """Return the seconds to the first step of two runs. Only the second run finds compiled kernels."""
    with tempfile.TemporaryDirectory() as folder:
        once(["-m", "dragoman", "prepare-data", "phrasebook", "--folder", f"{folder}/data", "--quiet"])
        return first_step(Path(folder), "cold"), first_step(Path(folder), "warm")


def first_step(folder: Path, run: str) -> float:
    """Train one step and return the seconds until it is done."""
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
