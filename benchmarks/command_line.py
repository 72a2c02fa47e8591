"""What the command lines here have in common: where figures go, and the command itself as it can be shown to others."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path


def command_line(words: Sequence[str] | None = None) -> str:
    """The command line (this one's, if none is given). Of absolute paths only names are kept: where they lie is nobody
    else's.

    >>> command_line(["training.py", "--data", "/home/me/train.en", "../train.de"])
    'training.py --data train.en ../train.de'
    """
    return shlex.join(re.sub(r"(?<![^\s=])/(?:[^/\s]+/)*", "", word) for word in words or sys.argv)


def figures_file(word: str) -> Path:
    """A path for figures, as a type for `argparse`: what cannot be written is refused before anything is measured."""
    path = Path(word)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{word} is a folder; name a file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path.parent} is not a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{word} may not be written")
    return path
