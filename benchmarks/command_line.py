"""The command that a result was made with, as it can be shown to others."""

import re
import shlex
import sys
from collections.abc import Sequence


def command_line(words: Sequence[str] | None = None) -> str:
    """The command line (this one's, if none is given). Of absolute paths only names are kept: where they lie is nobody
    else's.

    >>> command_line(["training.py", "--data", "/home/me/train.en", "../train.de"])
    'training.py --data train.en ../train.de'
    """
    return shlex.join(re.sub(r"(?<![^\s=])/(?:[^/\s]+/)*", "", word) for word in words or sys.argv)
