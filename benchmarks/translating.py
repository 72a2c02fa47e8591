"""Speed and quality of runtimes that translate with the same weights.

    make bench-translating RUN=runs/my       installs CTranslate2 and runs this, or by hand:
    python benchmarks/translating.py MODEL [TEST [REFERENCES ...]] [--rounds 5] [--lines 1000] [--out results.json]

By default the test is that of the model's run. `make extras` installs all runtimes. The model is exported to
CTranslate2 and, if Hugging Face can hold it, to that. Each runtime has a process of its own and both cores. They take
turns, round by round, in alternating order. A file is one call; the time of one sentence is that of a call with one
sentence (`--call-size 4`: with four). Both are from text to text. "From tokens" is the search alone, without
tokenizers: one call with the tokens of the same lines, in processor time of all threads. "Of the roof" compares it with
torch's matrix products in float32 on one thread: it counts the model's multiply-adds, without attention, for all source
tokens and for the tokens of the best hypothesis times the beam size.

CTranslate2 comes in its best setting: heats of three rounds try two workers of one thread and one of two, each with two
sizes of batches, for the file, and one thread and two for one sentence. Hugging Face runs `generate` in batches of
similar length. A ratio is to CTranslate2 in the same precision and the same round.

Tokens are those of each runtime's own translations, with end symbols. `plain` is the model in PyTorch in float32; equal
lines are lines for which a runtime writes the same text (in beams, CTranslate2 ranks by another length penalty), and p
is that of a paired bootstrap of BLEU against it. Memory is the peak of a process, its interpreter included. The time of
a start is measured by `versions.py`.
"""

import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from command_line import interleaved, markdown, new_parser, report, write_figures
from peers.runtimes import Contender, Turn, Way

import dragoman
from dragoman.errors import Error
from dragoman.evaluating.metrics import score
from dragoman.evaluating.references import ReferenceSet, own_test_set, read_references
from dragoman.evaluating.significance import compare_outputs
from dragoman.evaluating.speed import Latency, MedianRange
from dragoman.model.config import ModelConfig
from dragoman.model.shapes import weight_shapes
from dragoman.store.folder import load_model
from dragoman.system import describe, gemm_rate, torch_threads

SEARCHES = {"greedy": 1, "beam 4": 4}
PRECISIONS = ("float32", "int8")
HEATS = 3
FILE, ONE, TOKENS = "file", "one sentence", "from tokens"
SLOW = ("plain", "huggingface")
"""Runtimes that take part in a third of the rounds."""
Item = TypeVar("Item")
Turns = dict[Way, list[Turn]]


@dataclass
class Row:
    """Figures of one runtime in one search."""

    way: str
    search: str
    settings: dict[str, str]
    """For a file and for one sentence."""
    tokens_per_second: MedianRange
    latency_ms: Latency
    bleu: float
    chrf: float
    p_value: float
    """Of a difference in BLEU from `plain`, on the lines that both translated."""
    equal: int
    lines: int
    megabytes: float
    to_ctranslate2: dict[str, MedianRange]
    """The speeds of a file and from tokens over CTranslate2's, and the time of one sentence over CTranslate2's."""
    from_tokens: MedianRange | None
    """Tokens per processor second of the search alone, if the runtime can be timed so."""
    roof_share: float | None
    """The model's multiply-adds per processor second in that search over the roof of one thread."""

    def cells(self) -> list[str]:
        """Return a row of the table."""
        alone, share = self.from_tokens, self.roof_share
        speed, wait, ratios = self.tokens_per_second, self.latency_ms, self.to_ctranslate2
        return [
            self.search,
            self.way,
            f"{speed.median:,.0f} ({speed.low:,.0f} to {speed.high:,.0f})",
            f"{ratios[FILE].median:.2f}" if FILE in ratios else "",
            f"{wait.p50:.1f}, {wait.p95:.1f}",
            f"{ratios[ONE].median:.2f}" if ONE in ratios else "",
            f"{alone.median:,.0f} ({alone.low:,.0f} to {alone.high:,.0f})" if alone else "",
            f"{ratios[TOKENS].median:.2f}" if TOKENS in ratios else "",
            f"{share:.0%}" if share else "",
            f"{self.bleu:.1f}",
            f"{self.p_value:.2f}",
            f"{self.equal:,} of {self.lines:,}",
            f"{self.megabytes:,.0f}",
        ]


COLUMNS = ["search", "runtime", "file, tokens/s", "to CTranslate2", "one sentence, p50, p95 ms", "to CTranslate2"]
COLUMNS += ["from tokens, tokens per processor second", "to CTranslate2", "of the roof"]
COLUMNS += ["BLEU", "p", "equal lines", "MB"]


class Race:
    """Runtimes that take turns at one model and one text."""

    def __init__(
        self, model: Path, test: ReferenceSet, lines: int, alone: int, call_size: int, rounds: int, threads: int
    ) -> None:
        """Choose the texts, and measure the roof before anything else runs."""
        self.model, self.rounds, self.threads, self.call_size = model, rounds, threads, call_size
        with torch_threads(1):
            self.roof = max(gemm_rate(seconds=0.2) for _ in range(10))
        self.language = test.language
        chosen = evenly_spaced(range(len(test)), lines)
        self.texts = [test.sources[place] for place in chosen]
        self.references = [test.references[place] for place in chosen]
        self.alone = evenly_spaced(self.texts, alone * call_size)

    def run(self, folders: dict[str, Path], search: str) -> list[Row]:
        """Return all rows of one search. `folders` are the models by runtime."""
        beam = SEARCHES[search]
        files = [Way("dragoman", precision, self.model, self.threads) for precision in PRECISIONS]
        ones = list(files)
        for precision in PRECISIONS:
            report(f"{search}: heats of CTranslate2 {precision}")
            file, one = self.heats(folders["ctranslate2"], precision, beam)
            files.append(file)
            ones.append(one)
        if "huggingface" in folders:
            files.append(Way("huggingface", "float32", folders["huggingface"], self.threads))
            ones.append(files[-1])
        plain = Way("plain", "float32", self.model, self.threads)
        searches: Turns = {way: [] for way in files if way.runtime != "huggingface"}
        turns = self.take_turns([*files, plain], beam, self.texts, searches=searches)
        calls = self.take_turns([*ones, plain], beam, self.alone, self.call_size)
        return self.rows(search, turns, calls, searches)

    def heats(self, folder: Path, precision: str, beam: int) -> tuple[Way, Way]:
        """Return CTranslate2's best setting for a file and for one sentence."""
        settings = [(workers, tokens) for workers in {1, self.threads} for tokens in (1024, 4096)]
        files = [Way("ctranslate2", precision, folder, self.threads, *setting) for setting in settings]
        ones = [Way("ctranslate2", precision, folder, threads) for threads in {1, self.threads}]
        best: list[Way] = []
        for ways, texts, call_size in ((files, self.texts, None), (ones, self.alone, self.call_size)):
            turns = self.take_turns(ways, beam, texts, call_size, HEATS)
            best.append(max(turns, key=lambda way: statistics.median(turn.tokens_per_second for turn in turns[way])))
        return best[0], best[1]

    def take_turns(
        self,
        ways: Sequence[Way],
        beam: int,
        texts: Sequence[str],
        call_size: int | None = None,
        rounds: int = 0,
        searches: Turns | None = None,
    ) -> Turns:
        """Return every way's turns, after a short turn that warms up; add to `searches` those from tokens."""
        contenders = [Contender(way, self.model) for way in ways]
        turns: Turns = {way: [] for way in ways}
        for contender in contenders:
            contender.turn(texts[:16], beam, call_size)
        count = rounds or self.rounds
        for number, contender in interleaved(contenders, count):
            if contender.way.runtime not in SLOW or number < max(1, count // 3):
                report(f"beam {beam}, {contender.way.name}: round {number + 1} of {count}")
                turns[contender.way].append(contender.turn(texts, beam, call_size))
                if searches and contender.way in searches:
                    searches[contender.way].append(contender.turn(texts, beam, from_tokens=True))
        for contender in contenders:
            contender.leave()
        return turns

    def rows(self, search: str, files: Turns, ones: Turns, searches: Turns) -> list[Row]:
        """Return the figures of every way that translated a file, with its turns at one sentence and from tokens."""
        outputs = {way: [output.text for output in turns[0].outputs] for way, turns in files.items()}
        plain = next(texts for way, texts in outputs.items() if way.runtime == "plain")
        rivals = {
            way.precision: {FILE: turns, ONE: calls, TOKENS: searches[way]}
            for (way, turns), calls in zip(files.items(), ones.values(), strict=True)
            if way.runtime == "ctranslate2"
        }
        rows = []
        for (way, turns), (one, calls) in zip(files.items(), ones.items(), strict=True):
            texts, references, language, alone = outputs[way], self.references, self.language, searches.get(way, [])
            scores = score(texts, references, metrics=("bleu", "chrf"), samples=0, language=language)
            compared = compare_outputs(plain, texts, references, metrics=("bleu",), language=language)
            row = Row(
                way=way.name,
                search=search,
                settings={FILE: way.settings, ONE: one.settings},
                tokens_per_second=MedianRange.from_values([turn.tokens_per_second for turn in turns]),
                latency_ms=Latency.from_seconds([seconds for turn in calls for seconds in turn.seconds]),
                bleu=scores["bleu"].value,
                chrf=scores["chrf"].value,
                p_value=1.0 if texts == plain else compared["bleu"].p_value,
                equal=sum(map(str.__eq__, plain, texts)),
                lines=len(texts),
                megabytes=max(turn.peak_memory_bytes or 0 for turn in turns) / 1e6,
                to_ctranslate2=ratios({FILE: turns, ONE: calls, TOKENS: alone}, rivals.get(way.precision, {})),
                from_tokens=MedianRange.from_values([turn.tokens_per_second for turn in alone]) if alone else None,
                roof_share=self.roof_share(alone, SEARCHES[search]) if alone else None,
            )
            rows.append(row)
        return rows

    def roof_share(self, turns: Sequence[Turn], beam: int) -> float:
        """Return the model's arithmetic per processor second, in the median turn, over the roof of one thread."""
        stored = load_model(self.model)
        read, written = multiply_adds(stored.config)
        sources = sum(map(len, map(stored.files.framing.source, stored.tokenizers.source.encode_batch(self.texts))))
        rates = [
            (sources * read + beam * sum(output.tokens for output in turn.outputs) * written) / sum(turn.seconds)
            for turn in turns
        ]
        return 2 * statistics.median(rates) / 1e9 / self.roof


def multiply_adds(config: ModelConfig) -> tuple[int, int]:
    """Return the multiply-adds of the matrices for a token of the source, and for one that a row writes."""
    shapes = weight_shapes(config).items()
    sizes = {name: math.prod(shape) for name, shape in shapes if len(shape) == 2 and "embedding" not in name}
    of_source = ("encoder.", "cross_attention.key.", "cross_attention.value.")
    read = sum(size for name, size in sizes.items() if any(part in name for part in of_source))
    return read, sum(sizes.values()) - read


def ratios(own: dict[str, list[Turn]], rival: dict[str, list[Turn]]) -> dict[str, MedianRange]:
    """Return the speeds over the rival's, and the median time of one sentence over the rival's, within each round."""
    values: dict[str, list[float]] = {}
    for measure, turns in rival.items():
        pairs = zip(own[measure], turns, strict=False)
        values[measure] = [
            statistics.median(mine.seconds) / statistics.median(theirs.seconds)
            if measure == ONE
            else mine.tokens_per_second / theirs.tokens_per_second
            for mine, theirs in pairs
        ]
    return {measure: MedianRange.from_values(rounds) for measure, rounds in values.items() if rounds}


def export(model: Path, folder: Path) -> dict[str, Path]:
    """Export the model as other runtimes read it, and report a runtime that can't hold it."""
    folders = {}
    for target in ("ctranslate2", "huggingface"):
        try:
            dragoman.export(model, target, folder / target)
            folders[target] = folder / target
        except Error as error:
            report(f"LEFT OUT: {target}: {error}")
    if "ctranslate2" not in folders:
        sys.exit("error: CTranslate2 can't be compared")
    return folders


def evenly_spaced(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most this many items, evenly spaced."""
    count = min(most, len(items))
    return [items[number * len(items) // count] for number in range(count)]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("test", type=Path, nargs="?", help="by default the test set of the model's run")
    parser.add_argument("references", type=Path, nargs="*")
    parser.add_argument("--searches", nargs="+", default=list(SEARCHES), choices=list(SEARCHES))
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--alone", type=int, default=100, help="calls with one sentence")
    parser.add_argument("--call-size", type=int, default=1, help="sentences in such a call")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    try:
        test = read_references(options.test or own_test_set(options.model), options.references)
    except Error as error:
        sys.exit(f"error: {error}")
    sizes = (options.lines, options.alone, options.call_size, options.rounds, options.threads)
    race = Race(options.model, test, *sizes)
    with tempfile.TemporaryDirectory() as name:
        folders = export(options.model, Path(name))
        rows = [row for search in options.searches for row in race.run(folders, search)]
    roof = f"roof of one thread: {race.roof:,.0f} GFLOP/s in float32"
    print(f"{describe()}; {roof}\n\n{markdown(COLUMNS, [row.cells() for row in rows])}")
    write_figures(options.out, test=str(test), roof_gflops=race.roof, rows=rows)


if __name__ == "__main__":
    main()
