"""Does a run that is killed again and again end in the same weights as an unbroken one?

    python benchmarks/kills.py [--data phrasebook] [--kills 10] [--steps 400] [--set KEY=VALUE] [--out results.json]

One `dragoman train` command runs to its end. The same command starts again under another name, is killed (SIGKILL) at
moments drawn from `--seed`, and is restarted each time. The first kill comes before the first step, while data and
tokenizer are made. Every second kill waits until a checkpoint is being written. Both runs must end with the same
`final/` and `best/` weights, byte for byte, and with the same journal, each step once. The exit code is 1 if they do
not, or if fewer than two kills came while a checkpoint was being written (then use more steps or a larger model).
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
from pathlib import Path
from typing import Any, NamedTuple

from command_line import command_line, figures_file

from dragoman.files import sha256
from dragoman.runs.metrics_log import read_metrics
from dragoman.system import describe, machine

SAVES = 20
"""Checkpoints in a run: many, so that kills can come while one is being written."""
LEAST_WHILE_SAVING = 2
POLL_SECONDS = 0.002


class Kill(NamedTuple):
    step: int
    """The last step in the journal."""
    seconds: float
    """Since the process began."""
    half_written: list[str]
    """Unfinished files and folders that the kill left behind."""

    @property
    def while_saving(self) -> bool:
        return any(name.startswith("checkpoints/") for name in self.half_written)


class Moment(NamedTuple):
    """When to kill: some time after a step or, with `while_saving`, after the next checkpoint has begun."""

    step: int
    while_saving: bool
    wait_seconds: float


class Trial(NamedTuple):
    """One command, and the run folder that it leaves."""

    command: list[str]
    folder: Path

    def finish(self) -> float:
        """Runs to the end and returns the seconds."""
        start = time.perf_counter()
        self.wait(self.start())
        return time.perf_counter() - start

    def kill_at(self, moment: Moment) -> Kill | None:
        """Starts the run and kills it at the moment given; None if the run ended before."""
        start = time.time()
        process, come = self.start(), None
        while process.poll() is None:
            if come is None and self.has_come(moment, start):
                come = time.time()
            if come is not None and time.time() - come >= moment.wait_seconds:
                break
            time.sleep(POLL_SECONDS)
        process.kill()
        seconds = time.time() - start
        if self.wait(process) == 0:
            return None
        half_written = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob(".*.partial"))
        return Kill(self.step(), seconds, half_written)

    def has_come(self, moment: Moment, start: float) -> bool:
        if moment.step == 0:
            return True
        journal = self.folder / "metrics.jsonl"
        if not journal.exists() or journal.stat().st_mtime < start or self.step() < moment.step:
            return False  # until this process opens the journal, it holds steps that will be repeated
        return not moment.while_saving or any((self.folder / "checkpoints").glob(".step-*.partial"))

    def step(self) -> int:
        """The last step in the journal."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_bytes().split(b"\n")[-2:] if path.exists() else []
        return json.loads(lines[0])["step"] if len(lines) == 2 else 0

    def start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def wait(self, process: "subprocess.Popen[str]") -> int:
        """Waits for the process. If the run failed by itself, this benchmark ends too."""
        _, errors = process.communicate()
        if process.returncode > 0:
            sys.exit(f"{shlex.join(self.command)} ended with {process.returncode}:\n{errors}")
        return process.returncode


def moments(kills: int, steps: int, chance: random.Random) -> Iterator[Moment]:
    """One kill before the first step, the others spread over the run, every second one during a checkpoint."""
    yield Moment(0, False, chance.uniform(0.5, 5.0))
    for number in range(1, kills):
        step, while_saving = max(1, round(steps * (number - chance.random()) / kills)), number % 2 == 1
        yield Moment(step, while_saving, chance.uniform(0.0, 0.05 if while_saving else 0.5))


def journal(folder: Path) -> list[dict[str, Any]]:
    """The lines of the journal without their times."""
    return [{key: value for key, value in line.items() if key != "seconds"} for line in read_metrics(folder)]


def compare(unbroken: Path, broken: Path, steps: int) -> dict[str, bool]:
    models = [path.relative_to(unbroken) for path in sorted(unbroken.glob("*/*.safetensors"))]
    same = {f"same {name}": sha256(unbroken / name) == sha256(broken / name) for name in models}
    logged = [line["step"] for line in journal(broken) if "loss" in line]
    return {
        **same,
        "each step once in metrics.jsonl": logged == list(range(1, steps + 1)),
        "same metrics.jsonl, clocks aside": journal(unbroken) == journal(broken),
    }


def trial(options: argparse.Namespace, runs: Path, name: str) -> Trial:
    settings = {
        "train.steps": options.steps,
        "train.save_every": max(1, options.steps // SAVES),
        "model.size": options.size,
        "batches.batch_tokens": options.batch_tokens,
    }
    command = [sys.executable, "-m", "dragoman", "train", *options.data, "--quiet"]
    command += ["--runs", str(runs), "--name", name, "--threads", str(options.threads)]
    for setting in (*(f"{key}={value}" for key, value in settings.items()), *options.set):
        command += ["--set", setting]
    return Trial(command, runs / name)


def show(kills: list[Kill]) -> None:
    print(f"{'kill':>4}{'after s':>9}{'step':>7}{'saving':>8}   half written")
    for number, kill in enumerate(kills, 1):
        told = "yes" if kill.while_saving else "no"
        print(f"{number:>4}{kill.seconds:>9.1f}{kill.step:>7}{told:>8}   {', '.join(kill.half_written)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=["phrasebook"], help="what `dragoman train` takes")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--size", default="small", choices=["tiny", "mini", "small", "base"])
    parser.add_argument("--batch-tokens", type=int, default=2_048)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another setting of the run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    kills: list[Kill] = []
    with tempfile.TemporaryDirectory() as name:
        unbroken, broken = (trial(options, Path(name), run) for run in ("unbroken", "broken"))
        seconds = unbroken.finish()
        for moment in moments(options.kills, options.steps, random.Random(options.seed)):
            if (kill := broken.kill_at(moment)) is None:
                break
            kills.append(kill)
        broken.finish()
        found = compare(unbroken.folder, broken.folder, options.steps)
    show(kills)
    saving = sum(kill.while_saving for kill in kills)
    print(f"\nunbroken in {seconds:,.0f} s; killed {len(kills)} times, {saving} while a checkpoint was being written")
    for what, holds in found.items():
        print(f"{what:<42}{'yes' if holds else 'NO'}")
    print(f"\n{describe()}")
    if options.out:
        facts = {"machine": machine(), "command": command_line(), "seed": options.seed, "found": found}
        listed = [{**kill._asdict(), "while_saving": kill.while_saving} for kill in kills]
        options.out.write_text(json.dumps({**facts, "unbroken_seconds": seconds, "kills": listed}, indent=2) + "\n")
    if not all(found.values()):
        sys.exit("the killed run is not the unbroken one")
    if len(kills) < options.kills or saving < LEAST_WHILE_SAVING:
        sys.exit(f"too few kills: {len(kills)} of {options.kills}, {saving} while saving")


if __name__ == "__main__":
    main()
