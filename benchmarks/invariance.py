"""Test that a sentence gets the same translation in any batch, position and order.

    python benchmarks/invariance.py MODEL TEXT ... [--lines 10000] [--out results/invariance.json]

Each line of TEXT is translated alone; then all together on one thread, shuffled on two, and shuffled again in batches
an eighth the size: by greedy search, beam 4 and samples, compiled in every precision and in PyTorch. Lines that differ
in any token from the translation alone are counted. PyTorch, which is slow with one line, translates fewer. In float32,
the compiled translator is also compared with PyTorch.

The gap of two greedy translations is between the log-probabilities of the first tokens that differ; the gap of two from
beams is between their scores. Samples have none: a random number is on one side of a border or on the other.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from command_line import markdown, new_parser, report, write_figures

from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.store.description import StoredModel
from dragoman.store.folder import load_model
from dragoman.system import describe

SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1},
    "beam 4": {"beam_size": 4},
    "samples": {"beam_size": 1, "top_p": 0.9},
}


class Grouping(NamedTuple):
    """The way in which lines are translated together."""

    name: str
    threads: int
    shuffled: int | None = None
    """The seed of their order; None: their own order."""
    smaller: int = 1
    """Batches are this many times smaller than usual."""


GROUPINGS = (
    Grouping("together, 1 thread", 1),
    Grouping("shuffled, 2 threads", 2, shuffled=1),
    Grouping("shuffled, 2 threads, small batches", 2, shuffled=2, smaller=8),
)


@dataclass
class Row:
    """The comparison of lines in one grouping with the same lines alone, or with those of another runtime."""

    runtime: str
    search: str
    grouping: str
    lines: int
    different: int
    largest_gap: float | None


def compare(runtime: str, search: str, grouping: str, first: list[Translation], second: list[Translation]) -> Row:
    """Count the translations that differ, and return the largest gap between two of them."""
    pairs = [pair for pair in zip(first, second, strict=True) if pair[0].tokens != pair[1].tokens]
    largest = max((gap(*pair, search) for pair in pairs), default=None) if search != "samples" else None
    row = Row(runtime, search, grouping, len(first), len(pairs), largest)
    report(str(row))
    return row


def gap(first: Translation, second: Translation, search: str) -> float:
    """Return the distance from a tie of two translations that differ."""
    if search != "greedy":
        return abs(first.score - second.score)
    tokens = enumerate(zip(first.tokens, second.tokens, strict=False))
    place = next(place for place, pair in tokens if pair[0] != pair[1])
    return abs(first.token_log_probs[place] - second.token_log_probs[place])


def load_translators(stored: StoredModel, precision: str, native: bool = True) -> dict[int, Translator]:
    """Return a translator for each number of threads."""
    return {
        threads: Translator(stored, "cpu", precision, native=native, threads=threads)
        for threads in {grouping.threads for grouping in GROUPINGS}
    }


def translate_together(
    translators: Mapping[int, Translator], texts: Sequence[str], options: SearchOptions, grouping: Grouping
) -> list[Translation]:
    """Return the translations in the order of `texts`, whatever the order in which they are translated."""
    order = list(range(len(texts)))
    if grouping.shuffled is not None:
        random.Random(grouping.shuffled).shuffle(order)
    smaller = options.but(batch_tokens=options.batch_tokens // grouping.smaller)
    translations = translators[grouping.threads].translate([texts[place] for place in order], smaller)
    return [line for _, line in sorted(zip(order, translations, strict=True), key=lambda pair: pair[0])]


def measure(runtime: str, translators: Mapping[int, Translator], texts: Sequence[str], **settings: Any) -> list[Row]:
    """Compare lines in every search and grouping with the same lines alone."""
    rows = []
    for search, own in SEARCHES.items():
        options = SearchOptions(split="never", **own, **settings)
        alone = [translators[1].translate([text], options)[0] for text in texts]
        for grouping in GROUPINGS:
            together = translate_together(translators, texts, options, grouping)
            rows.append(compare(runtime, search, grouping.name, alone, together))
    return rows


def compare_with_torch(
    compiled: Mapping[int, Translator], torch: Mapping[int, Translator], texts: Sequence[str]
) -> list[Row]:
    """Compare the compiled translator with PyTorch."""
    rows = []
    for search, settings in SEARCHES.items():
        options = SearchOptions(split="never", **settings)
        first, second = (translate_together(own, texts, options, GROUPINGS[0]) for own in (compiled, torch))
        rows.append(compare("compiled and PyTorch", search, "", first, second))
    return rows


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path, nargs="+", help="a source on each line, or before its first tab")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--torch-lines", type=int, default=1_000)
    options = parser.parse_args()
    lines = [line.split("\t")[0] for path in options.text for line in path.read_text("utf-8").splitlines()]
    texts = list(dict.fromkeys(line for line in lines if line.strip()))[: options.lines]
    stored = load_model(options.model)
    torch = load_translators(stored, "float32", native=False)
    rows: list[Row] = []
    for precision in ("float32", "bf16", "int8"):
        compiled = load_translators(stored, precision)
        rows += measure(f"compiled, {precision}", compiled, texts)
        if precision == "float32":
            rows += compare_with_torch(compiled, torch, texts)
    some = texts[: options.torch_lines]
    rows += measure("PyTorch, float32", torch, some)
    rows += measure("PyTorch, batch_invariant", torch, some[: options.torch_lines // 4], batch_invariant=True)
    cells = [
        [row.runtime, row.search, row.grouping, f"{row.lines:,}", str(row.different), f"{row.largest_gap or 0:.1e}"]
        for row in rows
    ]
    print(f"{describe()}\n\n{markdown(['runtime', 'search', 'grouping', 'lines', 'different', 'largest gap'], cells)}")
    write_figures(options.out, rows=rows)


if __name__ == "__main__":
    main()
