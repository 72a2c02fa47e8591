"""What the benchmarks share: the command line as it can be shown to others, a check of `--out`, and tables."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path


def command_line(words: Sequence[str] | None = None) -> str:
    """The command line, by default this process's. Absolute paths are cut to their names, which keeps machines private.

    >>> command_line(["training.py", "--data", "/home/me/train.en", "../train.de"])
    'training.py --data train.en ../train.de'
    """
    return shlex.join(re.sub(r"(?<![^\s=])/(?:[^/\s]+/)*", "", word) for word in words or sys.argv)


def figures_file(word: str) -> Path:
    """A path for figures, as a type for `argparse`. Refuses what can't be written before anything is measured."""
    path = Path(word)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{word} is a folder; name a file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path.parent} is not a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{word} may not be written")
    return path


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> print(markdown(["size", "speed"], [["small", "1,200"]]))
    | size | speed |
    |---|---|
    | small | 1,200 |
    """
    lines = [columns, *rows]
    told = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([told[0], f"|{'---|' * len(columns)}", *told[1:]])
