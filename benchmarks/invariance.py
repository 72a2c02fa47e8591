"""Does a sentence get the same translation in any company, place and order?

    python benchmarks/invariance.py MODEL TEXT ... [--lines 10000] [--out results/invariance.json]

Each line of TEXT is translated alone; then all together on one thread, shuffled on two, and shuffled again in batches
an eighth the size: by greedy search, beam 4 and samples, compiled in every precision and in PyTorch. Lines that differ
in any token from the translation alone are counted. PyTorch, which is slow with one line, translates fewer. In float32,
the compiled translator is compared with PyTorch too.

The gap of two greedy translations is between the log-probabilities of the first tokens that differ; of two from
beams, between their scores. Samples have none: a draw falls on one side of a border or on the other.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from command_line import command_line, figures_file, markdown

from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.store.folder import load_model
from dragoman.system import describe, machine

SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1},
    "beam 4": {"beam_size": 4},
    "samples": {"beam_size": 1, "top_p": 0.9},
}
SMALL = 8
"""Batches are so many times smaller than usual in the last company."""


class Company(NamedTuple):
    """How lines are translated together."""

    name: str
    threads: int
    shuffled: int | None = None
    """The seed of their order; None: as they stand."""
    smaller: int = 1


COMPANIES = (
    Company("together, 1 thread", 1),
    Company("shuffled, 2 threads", 2, shuffled=1),
    Company("shuffled, 2 threads, small batches", 2, shuffled=2, smaller=SMALL),
)


@dataclass
class Row:
    """Lines in one company beside the same lines alone, or beside those of another runtime."""

    runtime: str
    search: str
    company: str
    lines: int
    different: int
    largest_gap: float | None
    seconds: float


def compare(one: Sequence[Translation], other: Sequence[Translation], search: str) -> tuple[int, float | None]:
    """How many translations differ, and the largest gap between two of them."""
    pairs = [pair for pair in zip(one, other, strict=True) if pair[0].tokens != pair[1].tokens]
    if search == "samples" or not pairs:
        return len(pairs), None
    return len(pairs), max(gap(*pair, search) for pair in pairs)


def gap(one: Translation, other: Translation, search: str) -> float:
    """How far from a tie two translations are that differ."""
    if search != "greedy":
        return abs(one.score - other.score)
    place = next(i for i, pair in enumerate(zip(one.tokens, other.tokens, strict=False)) if pair[0] != pair[1])
    return abs(one.token_log_probs[place] - other.token_log_probs[place])


def alone(translator: Translator, texts: Sequence[str], options: SearchOptions) -> list[Translation]:
    translator.threads = 1
    return [translator.translate([text], options)[0] for text in texts]


def together(
    translator: Translator, texts: Sequence[str], options: SearchOptions, company: Company
) -> list[Translation]:
    """In the order of `texts`, whatever the order in which they are translated."""
    order = list(range(len(texts)))
    if company.shuffled is not None:
        random.Random(company.shuffled).shuffle(order)
    translator.threads = company.threads
    smaller = options.but(batch_tokens=options.batch_tokens // company.smaller)
    found = translator.translate([texts[i] for i in order], smaller)
    place = {i: at for at, i in enumerate(order)}
    return [found[place[i]] for i in range(len(texts))]


def measure(runtime: str, translator: Translator, texts: Sequence[str], **changes: Any) -> list[Row]:
    """One runtime in every search and company."""
    rows = []
    for search, settings in SEARCHES.items():
        options = SearchOptions(split="never", **settings, **changes)
        by_itself = alone(translator, texts, options)
        for company in COMPANIES:
            began = time.perf_counter()
            found = together(translator, texts, options, company)
            seconds = time.perf_counter() - began
            rows.append(Row(runtime, search, company.name, len(texts), *compare(by_itself, found, search), seconds))
            tell(rows[-1])
    return rows


def beside_torch(compiled: Translator, torch: Translator, texts: Sequence[str]) -> list[Row]:
    """The compiled translator beside PyTorch."""
    rows = []
    for search, settings in SEARCHES.items():
        options = SearchOptions(split="never", **settings)
        began = time.perf_counter()
        found = [together(each, texts, options, COMPANIES[0]) for each in (compiled, torch)]
        seconds = time.perf_counter() - began
        different, largest = compare(found[0], found[1], search)
        rows.append(Row("compiled beside PyTorch", search, "", len(texts), different, largest, seconds))
        tell(rows[-1])
    return rows


def tell(row: Row) -> None:
    print(*asdict(row).values(), sep="\t", file=sys.stderr, flush=True)


def table(rows: Sequence[Row]) -> str:
    columns = ["runtime", "search", "company", "lines", "different", "largest gap"]
    cells = [
        [
            row.runtime,
            row.search,
            row.company,
            f"{row.lines:,}",
            str(row.different),
            "" if row.largest_gap is None else f"{row.largest_gap:.1e}",
        ]
        for row in rows
    ]
    return markdown(columns, cells)


def main() -> None:
    options = parse()
    lines = [line.split("\t")[0] for path in options.text for line in path.read_text("utf-8").splitlines()]
    texts = list(dict.fromkeys(line for line in lines if line.strip()))[: options.lines]
    some = texts[: options.torch_lines]
    stored = load_model(options.model)
    torch = Translator(stored, "cpu", "float32", native=False)
    rows: list[Row] = []
    for precision in options.precisions:
        compiled = Translator(stored, "cpu", precision)
        rows += measure(f"compiled, {precision}", compiled, texts)
        if precision == "float32":
            rows += beside_torch(compiled, torch, texts)
    rows += measure("PyTorch, float32", torch, some)
    rows += measure("PyTorch, batch_invariant", torch, some[: options.torch_lines // 4], batch_invariant=True)
    print(f"{describe()}\n\n{table(rows)}")
    if options.out:
        facts = {"command": command_line(), "machine": machine(), "rows": [asdict(row) for row in rows]}
        options.out.write_text(json.dumps(facts, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path, nargs="+", help="a source on each line, or before its first tab")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--torch-lines", type=int, default=1_000)
    parser.add_argument("--precisions", nargs="+", default=["float32", "bf16", "int8"])
    parser.add_argument("--out", type=figures_file)
    return parser.parse_args()


if __name__ == "__main__":
    main()
