"""Files that are no plain text: markup, subtitles, tables and others are known by their lines."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from dragoman.errors import DataError

_LINES = 500
"""So many lines that are not blank tell what a file is."""
_INLINE = r"(?!/?(?:a|abbr|b|br|code|em|font|i|span|strong|sub|sup|u)\b)"
_KINDS: Mapping[str, tuple[re.Pattern[str], float]] = {
    "markup, as in HTML and XML": (re.compile(rf"\s*<{_INLINE}[!?/]?[a-zA-Z-][^<>]*(?:>|$)"), 0.3),
    "commands, as in LaTeX": (re.compile(r"\s*\\[a-zA-Z]+\*?\s*[\[{]"), 0.5),
    "time codes, as in subtitles": (
        re.compile(r"\s*\[?\d+:\d\d[:.,]\d+.*(?:-->|,|\])|Dialogue: \d|\s*\{\d+\}\{\d+\}"),
        0.2,
    ),
    "entries of a catalogue of messages": (re.compile(r"msg(?:id|str|ctxt)\b|#[:,|~]"), 0.3),
    "records, as in JSON": (
        re.compile(r'\s*(?:[\[\]{}]+,?\s*$|[\[{].*[\]}],?\s*$|"(?:[^"\\]|\\.)*"\s*(?::|,\s*$))'),
        0.6,
    ),
    "settings with their names": (re.compile(r'\s*(?:[\w-]+\.[\w.-]+\s*[=:]|"[^"]*"\s*=|[\w-]+\s*=\s*\S)'), 0.6),
}
"""What lines may mostly be, by what such a line begins with, and the share of them that is enough."""
_QUOTED = re.compile('"[^"]*"')
_DELIMITERS = ("\t", ",", ";", "|")
_FEW = 4
"""So few lines of prose may have the same number of commas."""


def refuse_document(path: Path, lines: Iterable[str]) -> None:
    """Refuses a file whose `lines` are mostly markup, time codes or records, which a translation would destroy.

    Raises:
        DataError: it is one, and says of what kind.
    """
    some = [*islice((line for line in lines if line.strip()), _LINES)]
    if kind := _kind(some, path.name.removesuffix(".gz").endswith((".csv", ".tsv"))):
        raise DataError(
            f"{path} is no plain text: its lines are mostly {kind}, and would be translated with all their signs; take "
            "the text out of it first, or give --raw to translate each line as it stands"
        )


def _kind(lines: Sequence[str], is_named_table: bool) -> str | None:
    for kind, (pattern, share) in _KINDS.items():
        if sum(pattern.match(line) is not None for line in lines) > share * len(lines):
            return kind
    return "cells of a table" if _is_table(lines, is_named_table) else None


def _is_table(lines: Sequence[str], is_named_table: bool) -> bool:
    """Whether most lines have several cells; where only commas or the like tell, at least three, and all as many."""
    bare = [_QUOTED.sub("", line).strip() for line in lines]
    for delimiter in _DELIMITERS:
        counts = [line.count(delimiter) for line in bare]
        if is_named_table or delimiter == "\t":
            is_table = sum(map(bool, counts)) > max(1, 0.6 * len(counts))
        else:
            usual, rows = max(Counter(counts).items(), key=lambda each: each[1], default=(0, 0))
            is_table = usual > 1 and rows > _FEW and rows >= 0.9 * len(counts)
        if is_table:
            return True
    return False
