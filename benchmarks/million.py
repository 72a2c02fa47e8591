"""Memory of translating a million lines, and equality of the output after kills.

    python benchmarks/million.py MODEL TEXT [--lines 1000000] [--kills 5] [--beam-size 1] [--out results.json]

The lines of TEXT, shuffled and repeated, become one file of `--lines`. `dragoman translate MODEL --input … --output …`
is killed (SIGKILL) at random moments and started again each time. The output must have as many lines as the input, each
of 300 lines must have the same translation alone, and up to `--whole` lines all bytes must be those of a command that
was not killed. The peak of resident memory is that of each process. The exit code is 1 if anything differs.
"""

import argparse
import json
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from command_line import markdown, new_parser, write_figures

import dragoman
from dragoman.files import sha256
from dragoman.formats.lines import read_lines
from dragoman.system import describe

POLL_SECONDS = 0.01
LONGEST_WAIT_SECONDS = 2.0
"""Time before a kill, so that kills happen anywhere between two records."""
SAMPLE = 300
"""Lines that are also translated alone."""


class Process(NamedTuple):
    """One process of the command."""

    seconds: float
    lines: int
    """Lines in its record at the end."""
    peak_mebibytes: float
    killed: bool


class Job(NamedTuple):
    """The command and its output."""

    command: list[str]
    output: Path

    def run(self, kill_after: int | None = None, wait_seconds: float = 0.0) -> Process:
        """Run to the end, or kill the process this long after its record has this many lines."""
        start, due, peak = time.perf_counter(), None, 0.0
        process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while process.poll() is None:
            peak = max(peak, peak_mebibytes(process.pid))
            if kill_after is not None and due is None and self.lines() >= kill_after:
                due = time.perf_counter() + wait_seconds
            if due is not None and time.perf_counter() >= due:
                process.kill()
                break
            time.sleep(POLL_SECONDS)
        _, errors = process.communicate()
        if process.returncode > 0:
            sys.exit(f"{shlex.join(self.command)} ended with {process.returncode}:\n{errors}")
        return Process(time.perf_counter() - start, self.lines(), peak, process.returncode < 0)

    def lines(self) -> int:
        """Return the number of lines that are recorded as done; 0 without a record."""
        try:
            return json.loads(Path(f"{self.output}.part.json").read_bytes())["lines"]
        except FileNotFoundError:
            return 0


def peak_mebibytes(process: int) -> float:
    """Return the peak of a process's resident memory so far; 0 if it has ended."""
    try:
        facts = Path(f"/proc/{process}/status").read_text("utf-8")
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in facts.splitlines() if line.startswith("VmHWM:")), 0.0)


def repeated(text: Path, lines: int, generator: random.Random) -> Iterator[str]:
    """Yield this many lines of a text, shuffled again each time it has been used up."""
    own = list(read_lines(text))
    return islice(chain.from_iterable(generator.sample(own, len(own)) for _ in range(lines // len(own) + 1)), lines)


def make_job(options: argparse.Namespace, source: Path, output: Path) -> Job:
    """Return the command that translates a file."""
    command = [sys.executable, "-m", "dragoman", "translate", options.model, "--input", str(source)]
    command += ["--output", str(output), "--beam-size", str(options.beam_size), "--threads", str(options.threads)]
    return Job([*command, "--quiet"], output)


def run_with_kills(job: Job, options: argparse.Namespace, generator: random.Random) -> list[Process]:
    """Return the processes of the command that is killed several times and then runs to its end."""
    moments = sorted(generator.randrange(options.lines) for _ in range(options.kills))
    processes: list[Process] = []
    for moment in moments:
        processes.append(job.run(moment, generator.uniform(0.0, LONGEST_WAIT_SECONDS)))
        if not processes[-1].killed:
            sys.exit("the command ended before all kills; use more lines")
    return [*processes, job.run()]


def count_differing_alone(options: argparse.Namespace, source: Path, output: Path, generator: random.Random) -> int:
    """Return the number of lines of a sample that get another translation alone."""
    numbers = set(generator.sample(range(options.lines), min(SAMPLE, options.lines)))
    both = zip(read_lines(source), read_lines(output), strict=True)
    pairs = [pair for number, pair in enumerate(both) if number in numbers]
    translator = dragoman.Translator.load(options.model)
    search = translator.options.but(beam_size=options.beam_size)
    return sum(translator.translate([line], search)[0].text != translation for line, translation in pairs)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model")
    parser.add_argument("text", type=Path, help="a text a line, as train.en of Tatoeba")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--beam-size", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--whole", type=int, default=50_000, help="most lines that are also translated without a kill")
    options = parser.parse_args()
    generator = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        source, killed, whole = (Path(name) / file for file in ("source", "killed", "whole"))
        with source.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in repeated(options.text, options.lines, generator))
        processes = run_with_kills(make_job(options, source, killed), options, generator)
        checks = {
            "as many lines": sum(1 for _ in read_lines(killed)) == options.lines,
            "no other files left": sorted(path.name for path in Path(name).iterdir()) == ["killed", "source"],
            "each of a sample as alone": count_differing_alone(options, source, killed, generator) == 0,
        }
        unbroken = None
        if options.lines <= options.whole:
            unbroken = make_job(options, source, whole).run()
            checks["same bytes as without kills"] = sha256(whole) == sha256(killed)
    show(processes, options.lines, unbroken)
    for what, holds in checks.items():
        print(f"{what:<32}{'yes' if holds else 'NO'}")
    print(f"\n{describe()}")
    runs = {"processes": [process._asdict() for process in processes], "unbroken": unbroken and unbroken._asdict()}
    write_figures(options.out, checks=checks, **runs)
    if not all(checks.values()):
        sys.exit("the output is not what it should be")


def show(processes: list[Process], lines: int, unbroken: Process | None) -> None:
    """Print the processes and the speed."""
    runs = [*(("killed" if process.killed else "finished", process) for process in processes)]
    runs += [("without kills", unbroken)] if unbroken else []
    rows = [
        [
            name,
            f"{process.seconds:.1f}",
            f"{process.lines if process.killed else lines:,}",
            f"{process.peak_mebibytes:.0f}",
        ]
        for name, process in runs
    ]
    print(markdown(["process", "seconds", "lines recorded", "peak MiB"], rows))
    seconds = sum(process.seconds for process in processes)
    print(f"\n{lines:,} lines in {seconds:,.1f} s with kills, {lines / seconds:,.0f} lines/s")
    if unbroken:
        print(f"without kills {lines / unbroken.seconds:,.0f} lines/s")


if __name__ == "__main__":
    main()
