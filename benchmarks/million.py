"""Does translating a million lines take bounded memory, and do kills leave the output as it is?

    python benchmarks/million.py MODEL TEXT [--lines 1000000] [--kills 5] [--beam-size 1] [--out results.json]

The lines of TEXT, shuffled and repeated, become one file of `--lines`. `dragoman translate MODEL --input … --output …`
is killed (SIGKILL) at moments drawn from `--seed`, and started again each time. The output must have as many lines as
the input, a sample of them must be what each gets alone, and up to `--whole` lines all bytes must be those of a command
that was not killed. The peak of resident memory is that of each process. The exit code is 1 if anything differs.
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

from command_line import command_line, figures_file

import dragoman
from dragoman.files import sha256
from dragoman.formats.lines import read_lines
from dragoman.system import describe, machine

POLL_SECONDS = 0.01
LONGEST_WAIT_SECONDS = 2.0
"""After the moment for a kill has come, so that kills fall anywhere between two records."""


class Process(NamedTuple):
    """One process of the command."""

    seconds: float
    lines: int
    """That its record held in the end."""
    peak_mebibytes: float
    killed: bool


class Job(NamedTuple):
    """The command, and where it writes."""

    command: list[str]
    output: Path

    def run(self, kill_after: int | None = None, wait_seconds: float = 0.0) -> Process:
        """Runs to the end, or kills the process so long after its record has this many lines."""
        start, come, peak = time.perf_counter(), None, 0.0
        process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while process.poll() is None:
            peak = max(peak, peak_mebibytes(process.pid))
            if kill_after is not None and come is None and self.lines() >= kill_after:
                come = time.perf_counter()
            if come is not None and time.perf_counter() - come >= wait_seconds:
                process.kill()
                break
            time.sleep(POLL_SECONDS)
        _, errors = process.communicate()
        if process.returncode > 0:
            sys.exit(f"{shlex.join(self.command)} ended with {process.returncode}:\n{errors}")
        return Process(time.perf_counter() - start, self.lines(), peak, process.returncode < 0)

    def lines(self) -> int:
        """The lines that are recorded as done; 0 where nothing is recorded."""
        try:
            return json.loads(Path(f"{self.output}.part.json").read_bytes())["lines"]
        except FileNotFoundError:
            return 0


def peak_mebibytes(process: int) -> float:
    """The most memory that a process has held so far (resident); 0 if it has ended."""
    try:
        facts = Path(f"/proc/{process}/status").read_text("utf-8")
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in facts.splitlines() if line.startswith("VmHWM:")), 0.0)


def repeated(text: Path, lines: int, chance: random.Random) -> Iterator[str]:
    """So many lines of a text, shuffled anew each time it has been used up."""
    own = list(read_lines(text))
    return islice(chain.from_iterable(chance.sample(own, len(own)) for _ in range(lines // len(own) + 1)), lines)


def job(options: argparse.Namespace, source: Path, output: Path) -> Job:
    command = [sys.executable, "-m", "dragoman", "translate", options.model, "--input", str(source)]
    command += ["--output", str(output), "--beam-size", str(options.beam_size), "--threads", str(options.threads)]
    return Job([*command, "--quiet"], output)


def killed_and_finished(work: Job, options: argparse.Namespace, chance: random.Random) -> list[Process]:
    """The processes of the command that is killed so often and then runs to its end."""
    moments = sorted(chance.randrange(options.lines) for _ in range(options.kills))
    processes: list[Process] = []
    for moment in moments:
        processes.append(work.run(moment, chance.uniform(0.0, LONGEST_WAIT_SECONDS)))
        if not processes[-1].killed:
            return processes  # it ended first
    return [*processes, work.run()]


def differing_alone(options: argparse.Namespace, source: Path, output: Path, chance: random.Random) -> int:
    """How many lines of a sample get another translation alone."""
    numbers = set(chance.sample(range(options.lines), min(options.sample, options.lines)))
    both = zip(read_lines(source), read_lines(output), strict=True)
    pairs = [pair for number, pair in enumerate(both) if number in numbers]
    translator = dragoman.Translator.load(options.model)
    search = translator.options.but(beam_size=options.beam_size)
    return sum(translator.translate([line], search)[0].text != found for line, found in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("text", type=Path, help="a text a line, as train.en of Tatoeba")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--beam-size", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--whole", type=int, default=50_000, help="most lines that are also translated without a kill")
    parser.add_argument("--sample", type=int, default=300, help="lines that are also translated alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        source, killed, whole = (Path(name) / each for each in ("source", "killed", "whole"))
        with source.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in repeated(options.text, options.lines, chance))
        processes = killed_and_finished(job(options, source, killed), options, chance)
        found = {
            "as many lines": sum(1 for _ in read_lines(killed)) == options.lines,
            "nothing left beside it": sorted(path.name for path in Path(name).iterdir()) == ["killed", "source"],
            "each of a sample as alone": differing_alone(options, source, killed, chance) == 0,
        }
        unbroken = None
        if options.lines <= options.whole:
            unbroken = job(options, source, whole).run()
            found["same bytes as without kills"] = sha256(whole) == sha256(killed)
        sizes = {"source_bytes": source.stat().st_size, "output_bytes": killed.stat().st_size}
    show(processes, options.lines, unbroken)
    for what, holds in found.items():
        print(f"{what:<32}{'yes' if holds else 'NO'}")
    print(f"\n{describe()}")
    if options.out:
        facts = {"machine": machine(), "command": command_line(), "seed": options.seed, "found": found, **sizes}
        facts |= {"processes": [each._asdict() for each in processes], "unbroken": unbroken and unbroken._asdict()}
        options.out.write_text(json.dumps(facts, indent=2) + "\n")
    if not all(found.values()):
        sys.exit("the output is not what it should be")
    if sum(each.killed for each in processes) < options.kills:
        sys.exit("the command ended before all kills; use more lines")


def show(processes: list[Process], lines: int, unbroken: Process | None) -> None:
    print(f"{'':<10}{'seconds':>9}{'lines recorded':>16}{'peak MiB':>10}")
    for each in processes:
        ended, recorded = ("killed", each.lines) if each.killed else ("finished", lines)
        print(f"{ended:<10}{each.seconds:>9.1f}{recorded:>16,}{each.peak_mebibytes:>10.0f}")
    seconds = sum(each.seconds for each in processes)
    print(f"\n{lines:,} lines in {seconds:,.1f} s with kills, {lines / seconds:,.0f} lines/s")
    if unbroken:
        print(
            f"without kills in {unbroken.seconds:,.1f} s, {lines / unbroken.seconds:,.0f} lines/s, "
            f"peak {unbroken.peak_mebibytes:.0f} MiB"
        )


if __name__ == "__main__":
    main()
