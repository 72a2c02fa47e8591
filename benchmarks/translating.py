"""How fast do runtimes translate with the same weights, and what do they lose?

    python benchmarks/translating.py MODEL TEST [REFERENCES ...] [--rounds 5] [--lines 1000] [--out results.json]

`make extras` installs all runtimes. The model is exported to CTranslate2 and, if it can be held there, to Hugging Face.
Each runtime has a process of its own and both cores. They take turns, round by round, in alternating order. A file is
handed over in one call; for the time of one sentence, each sentence is a call of its own. Both are from text to text.

CTranslate2 comes in its best setting: heats of three rounds try two workers of one thread and one of two, each with two
sizes of batches, for the file, and one thread and two for one sentence. Hugging Face runs `generate` in batches alike
in length. A ratio is to CTranslate2 in the same precision and the same round.

Tokens are those of each runtime's own translations, with end symbols. `plain` is the model in PyTorch in float32; equal
lines are those in which a runtime says the same (in beams, CTranslate2 ranks by another length penalty), and p is that
of a paired bootstrap of BLEU against it. Memory is the most that a process held, its interpreter included. A start is a
program that translates one sentence, from its call to its end.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from command_line import command_line, figures_file, markdown
from peers.runtimes import Contender, Turn, Way

import dragoman
from dragoman.errors import Error
from dragoman.evaluating.metrics import score
from dragoman.evaluating.references import ReferenceSet, read_references
from dragoman.evaluating.significance import compare_outputs
from dragoman.evaluating.speed import Latency, MedianRange
from dragoman.system import describe, gemm_rate, machine

SEARCHES = {"greedy": 1, "beam 4": 4}
HEATS = 3
FILE, ONE = "file", "one sentence"
Item = TypeVar("Item")
SLOW = ("plain", "huggingface")
"""Runtimes that take part in a third of the rounds."""


@dataclass
class Row:
    """What one runtime did in one search."""

    way: str
    search: str
    settings: dict[str, str]
    """For a file and for one sentence."""
    tokens_per_second: MedianRange
    latency_ms: Latency
    bleu: float
    chrf: float
    p_value: float
    """That its BLEU differs from that of `plain`, on the lines that both translated."""
    equal: int
    lines: int
    megabytes: float
    to_ctranslate2: dict[str, MedianRange]
    """The speed of a file over CTranslate2's, and the time of one sentence over CTranslate2's."""


class Race:
    """Runtimes that take turns at one model and one text."""

    def __init__(self, model: Path, test: ReferenceSet, lines: int, alone: int, rounds: int, threads: int) -> None:
        self.model, self.rounds, self.threads = model, rounds, threads
        self.test = test
        self.chosen = spread(range(len(test)), lines)
        self.texts = [test.sources[i] for i in self.chosen]
        self.alone = spread(self.texts, alone)

    def run(self, folders: dict[str, Path], precisions: Sequence[str], search: str) -> list[Row]:
        """All rows of one search. `folders` are the models by runtime."""
        beam = SEARCHES[search]
        files = [Way("dragoman", precision, self.model, self.threads) for precision in precisions]
        ones = list(files)
        for precision in precisions:
            tell(f"{search}: heats of CTranslate2 {precision}")
            file, one = self.heats(folders["ctranslate2"], precision, beam)
            files.append(file)
            ones.append(one)
        if "huggingface" in folders:
            files.append(Way("huggingface", "float32", folders["huggingface"], self.threads))
            ones.append(files[-1])
        plain = Way("plain", "float32", self.model, self.threads)
        turns = self.rounds_of([*files, plain], beam, self.texts, alone=False)
        calls = self.rounds_of([*ones, plain], beam, self.alone, alone=True)
        return self.rows(search, turns, calls)

    def heats(self, folder: Path, precision: str, beam: int) -> tuple[Way, Way]:
        """CTranslate2's best setting for a file and for one sentence."""
        settings = [(workers, tokens) for workers in {1, self.threads} for tokens in (1024, 4096)]
        files = [Way("ctranslate2", precision, folder, self.threads, *each) for each in settings]
        ones = [Way("ctranslate2", precision, folder, threads) for threads in {1, self.threads}]
        best: list[Way] = []
        for ways, texts, alone in ((files, self.texts, False), (ones, self.alone, True)):
            taken = self.rounds_of(ways, beam, texts, alone, rounds=HEATS)
            best.append(max(taken, key=lambda way: statistics.median(turn.tokens_per_second for turn in taken[way])))
        return best[0], best[1]

    def rounds_of(
        self, ways: Sequence[Way], beam: int, texts: Sequence[str], alone: bool, rounds: int | None = None
    ) -> dict[Way, list[Turn]]:
        """Every way's turns. A short one warms up."""
        contenders = [Contender(way, self.model) for way in ways]
        turns: dict[Way, list[Turn]] = {way: [] for way in ways}
        for contender in contenders:
            contender.turn(texts[:16], beam, alone)
        count = rounds or self.rounds
        for number in range(count):
            tell(f"beam {beam}, {ONE if alone else FILE}: round {number + 1} of {count}")
            for contender in contenders[:: -1 if number % 2 else 1]:
                if contender.way.runtime not in SLOW or number < max(1, count // 3):
                    turns[contender.way].append(contender.turn(texts, beam, alone))
        for contender in contenders:
            contender.leave()
        return turns

    def rows(self, search: str, files: dict[Way, list[Turn]], ones: dict[Way, list[Turn]]) -> list[Row]:
        references = [self.test.references[i] for i in self.chosen]
        language = self.test.language
        said = {way: [each.text for each in turns[0].said] for way, turns in files.items()}
        plain = next(texts for way, texts in said.items() if way.runtime == "plain")
        rivals = {
            way.precision: (turns, ones[other])
            for (way, turns), other in zip(files.items(), ones, strict=True)
            if way.runtime == "ctranslate2"
        }
        found = []
        for (way, turns), (other, calls) in zip(files.items(), ones.items(), strict=True):
            texts = said[way]
            scores = score(texts, references, metrics=("bleu", "chrf"), samples=0, language=language)
            compared = compare_outputs(plain, texts, references, metrics=("bleu",), language=language)
            row = Row(
                way=way.name,
                search=search,
                settings={FILE: way.settings, ONE: other.settings},
                tokens_per_second=MedianRange.from_values([turn.tokens_per_second for turn in turns]),
                latency_ms=Latency.from_seconds([seconds for turn in calls for seconds in turn.seconds]),
                bleu=scores["bleu"].value,
                chrf=scores["chrf"].value,
                p_value=1.0 if texts == plain else compared["bleu"].p_value,
                equal=sum(map(str.__eq__, plain, texts)),
                lines=len(texts),
                megabytes=max(turn.peak_memory_bytes or 0 for turn in turns) / 1e6,
                to_ctranslate2=ratios(turns, calls, *rivals[way.precision]) if way.precision in rivals else {},
            )
            found.append(row)
        return found


def ratios(
    turns: Sequence[Turn], calls: Sequence[Turn], rival_turns: Sequence[Turn], rival_calls: Sequence[Turn]
) -> dict[str, MedianRange]:
    """The speed of a file over the rival's, and the median time of one sentence over the rival's, within each round."""
    speeds = [own.tokens_per_second / other.tokens_per_second for own, other in zip(turns, rival_turns, strict=False)]
    times = [
        statistics.median(own.seconds) / statistics.median(other.seconds)
        for own, other in zip(calls, rival_calls, strict=False)
    ]
    return {FILE: MedianRange.from_values(speeds), ONE: MedianRange.from_values(times)}


def export(model: Path, folder: Path) -> dict[str, Path]:
    """The model as other runtimes read it; what can't hold it is named and left out."""
    found = {}
    for target in ("ctranslate2", "huggingface"):
        try:
            dragoman.export(model, target, folder / target)
            found[target] = folder / target
        except Error as error:
            tell(f"LEFT OUT: {target}: {error}")
    if "ctranslate2" not in found:
        sys.exit("error: CTranslate2 can't be compared")
    return found


def starts(model: Path, folders: dict[str, Path], text: str, runs: int) -> dict[str, list[float]]:
    """Seconds of programs that translate one sentence, in turns, after one that warms the disk's cache."""
    programs = {
        "python": [sys.executable, "-c", "pass"],
        "import torch": [sys.executable, "-c", "import torch"],
        "dragoman translate": [sys.executable, "-m", "dragoman", "translate", str(model), text, "--quiet"],
        **{name: [sys.executable, str(folder / "translate.py")] for name, folder in folders.items()},
    }
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(runs + 1):
        for name, words in programs.items():
            began = time.perf_counter()
            subprocess.run(words, input=f"{text}\n", text=True, capture_output=True, check=True)
            if number:
                taken[name].append(time.perf_counter() - began)
    return taken


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many of them, evenly spread."""
    count = min(most, len(items))
    return [items[i * len(items) // count] for i in range(count)]


def table(rows: Sequence[Row]) -> str:
    columns = ["search", "runtime", "file, tokens/s", "to CTranslate2", "one sentence, p50, p95 ms", "to CTranslate2"]
    columns += ["BLEU", "p", "equal lines", "MB"]
    return markdown(columns, [list(cells(row)) for row in rows])


def cells(row: Row) -> Sequence[str]:
    speed, wait, ratios = row.tokens_per_second, row.latency_ms, row.to_ctranslate2
    return (
        row.search,
        row.way,
        f"{speed.median:,.0f} ({speed.low:,.0f} to {speed.high:,.0f})",
        f"{ratios[FILE].median:.2f}" if FILE in ratios else "",
        f"{wait.p50:.1f}, {wait.p95:.1f}",
        f"{ratios[ONE].median:.2f}" if ONE in ratios else "",
        f"{row.bleu:.1f}",
        f"{row.p_value:.2f}",
        f"{row.equal:,} of {row.lines:,}",
        f"{row.megabytes:,.0f}",
    )


def plain(value: Any) -> Any:
    """Named tuples and data classes as JSON keeps them."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    return vars(value) if hasattr(value, "__dict__") else str(value)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("references", type=Path, nargs="*")
    parser.add_argument("--precisions", nargs="+", default=["float32", "int8"], choices=["float32", "int8", "bf16"])
    parser.add_argument("--searches", nargs="+", default=list(SEARCHES), choices=list(SEARCHES))
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--alone", type=int, default=100, help="sentences that are translated one by one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=figures_file)
    return parser.parse_args()


def main() -> None:
    options = parse()
    test = read_references(options.test, options.references)
    race = Race(options.model, test, options.lines, options.alone, options.rounds, options.threads)
    with tempfile.TemporaryDirectory() as name:
        folders = export(options.model, Path(name))
        rows = [row for search in options.searches for row in race.run(folders, options.precisions, search)]
        began = starts(options.model, folders, test.sources[0], options.rounds)
    print(f"{describe()}; {gemm_rate():,.0f} GFLOP/s in float32\n\n{table(rows)}\n")
    print(markdown(["start", "seconds"], [[name, f"{statistics.median(each):.2f}"] for name, each in began.items()]))
    if options.out:
        facts = {"command": command_line(), "machine": machine(), "test": str(test), "rows": rows, "starts": began}
        options.out.write_text(json.dumps(facts, default=plain, indent=1) + "\n")


if __name__ == "__main__":
    main()
