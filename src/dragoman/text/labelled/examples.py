"""Labelled text as it is read: an `Example` and its place in a file, and the `Source` that yields examples."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

Task = Literal["classify", "tag"]
"""Whether a text has one label, or each of its words has one."""


class Example(NamedTuple):
    """A labelled text: one part with one label (classify), or words with a label each (tag)."""

    parts: tuple[str, ...]
    labels: tuple[str, ...]
    file: str
    lines: tuple[int, ...]
    """The line of each part, from 1."""

    @property
    def text(self) -> str:
        return " ".join(self.parts)

    @property
    def origin(self) -> str:
        """Where it stood, as in corpus.csv:17."""
        return self.place(0)

    def place(self, part: int) -> str:
        return f"{self.file}:{self.lines[part]}"


Columns = tuple[str, str]
"""The names of the columns of the text and the label, or their numbers from 1."""


@dataclass(frozen=True)
class Source:
    """Examples that can be read, as often as wanted."""

    name: str
    reason: str
    """How it is read, and why so."""
    read: Callable[[Counter[str]], Iterator[Example]]
    """Yields the examples, and counts what is mended."""
    columns: Columns | None = None


def shortened(label: str, depth: int | None) -> str:
    """The first `depth` parts of a label, between colons. It is shown on one line, so line breaks become spaces.

    >>> shortened("NUM:dist", 1), shortened("very\\ngood", None)
    ('NUM', 'very good')
    """
    one_line = " ".join(label.split())
    return one_line if depth is None else ":".join(one_line.split(":")[:depth])
