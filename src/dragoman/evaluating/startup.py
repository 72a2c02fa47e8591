"""How long a fresh process takes to its first translation, and how much memory it comes to hold.

`measure_start` runs this file as a program of its own, because modules that are loaded once are not loaded again. It
imports nothing large before the clock runs.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.memory import peak_memory_bytes

if TYPE_CHECKING:
    from dragoman.translating import SearchOptions


@dataclass(frozen=True)
class Start:
    """A fresh process, from its start to its first translation, and its memory."""

    total_seconds: float
    """From the start of the process, its interpreter included, to the first translation."""
    import_seconds: float
    load_seconds: float
    first_seconds: float
    first_peak_bytes: int | None
    """The most memory that it held by then (resident); None where the system does not say."""
    peak_bytes: int | None
    """The most memory that it held by the end of all texts."""


def measure_start(
    folder: Path,
    texts: Sequence[str],
    options: SearchOptions,
    *,
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
) -> Start:
    """Loads the model in a process of its own and translates one text, then all of them together."""
    request = {
        "started": time.time(),
        "folder": str(folder),
        "texts": list(texts),
        "options": options.model_dump(mode="json"),
        "device": device,
        "precision": precision,
        "threads": threads,
    }
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name], input=json.dumps(request), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the process that measures the start of {folder} failed: {done.stderr.strip()[-500:]}")
    return Start(**json.loads(done.stdout.strip().rpartition("\n")[2]))


def main() -> None:
    """Answers a request on standard input with a `Start` on standard output."""
    request = json.loads(sys.stdin.read())
    clock = [time.perf_counter()]

    from dragoman.config import check
    from dragoman.machine import use_threads
    from dragoman.translating import SearchOptions, Translator

    clock.append(time.perf_counter())
    with use_threads(request["threads"]):
        translator = Translator.load(request["folder"], request["device"], request["precision"])
        clock.append(time.perf_counter())
        options = check(request["options"], "options", SearchOptions)
        translator.translate(request["texts"][:1], options)
        clock.append(time.perf_counter())
        total, first_peak = time.time() - request["started"], peak_memory_bytes()
        translator.translate(request["texts"], options)
    importing, loading, translating = (after - before for before, after in pairwise(clock))
    start = Start(total, importing, loading, translating, first_peak, peak_memory_bytes())
    sys.stdout.write(json.dumps(dataclasses.asdict(start)) + "\n")


if __name__ == "__main__":
    main()
