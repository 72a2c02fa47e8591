"""Parts that all benchmarks share: the parser, the command line as others may see it, rounds, tables and JSON files."""

import argparse
import json
import os
import re
import shlex
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

Item = TypeVar("Item")


def new_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with `--out` whose help is the docstring of a script."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    return parser


def figures_file(word: str) -> Path:
    """Return the path of a file for figures. Refuse a path that can't be written before anything is measured."""
    path = Path(word)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{word} is a folder; name a file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path.parent} is not a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{word} may not be written")
    return path


def command_line(words: Sequence[str] | None = None) -> str:
    """Return the command line, by default of this process, with absolute paths cut to their names.

    >>> command_line(["training.py", "--data", "/home/me/train.en", "../train.de"])
    'training.py --data train.en ../train.de'
    """
    return shlex.join(re.sub(r"(?<![^\s=])/(?:[^/\s]+/)*", "", word) for word in words or sys.argv)


def write_figures(path: Path | None, **figures: Any) -> None:
    """Write the command, the machine and these figures as JSON, if there is a path."""
    from dragoman.system import machine  # not in every version that versions.py runs

    if path is not None:
        facts = {"command": command_line(), "machine": machine(), **figures}
        path.write_text(json.dumps(facts, default=asdict, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def read_sides(paths: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of several files side by side, such as sources and references."""
    yield from zip(*(path.read_text(encoding="utf-8").splitlines() for path in paths), strict=True)


def report(text: str) -> None:
    """Print progress, which is not a result."""
    print(text, file=sys.stderr, flush=True)


def interleaved(items: Sequence[Item], rounds: int) -> Iterator[tuple[int, Item]]:
    """Yield the number of a round and an item: all items every round, in an order that is reversed each time.

    >>> [item for _, item in interleaved(["a", "b"], rounds=2)]
    ['a', 'b', 'b', 'a']
    """
    for number in range(rounds):
        for item in items[:: -1 if number % 2 else 1]:
            yield number, item


class MedianInterval(NamedTuple):
    """A median over rounds with its 95 % bootstrap interval."""

    ratio: float
    interval: tuple[float, float]

    @classmethod
    def from_ratios(cls, ratios: Sequence[float]) -> "MedianInterval":
        """Return the median of ratios, each measured within a round."""
        import numpy as np

        medians = np.median(np.random.default_rng(1).choice(ratios, (2_000, len(ratios))), axis=1)
        low, high = np.percentile(medians, [2.5, 97.5])
        return cls(statistics.median(ratios), (float(low), float(high)))

    def __str__(self) -> str:
        return f"{self.ratio:.3f} ({self.interval[0]:.3f} - {self.interval[1]:.3f})"


def mean_and_deviation(values: Sequence[float]) -> str:
    """Return the mean, and the standard deviation if there are several values.

    >>> mean_and_deviation([81.0, 82.0, 83.0])
    '82.0 ± 1.0'
    """
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{deviation}"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown.

    >>> print(markdown(["size", "speed"], [["small", "1,200"]]))
    | size | speed |
    |---|---|
    | small | 1,200 |
    """
    lines = [f"| {' | '.join(cells)} |" for cells in (columns, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(columns)}", *lines[1:]])
