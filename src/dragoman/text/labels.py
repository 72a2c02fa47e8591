"""Labelled text as it is read: an `Example` and its place in a file, the `Source` that yields examples, and labels in
the BIO scheme.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Task = Literal["classify", "tag"]
"""`classify` if a text has one label, `tag` if each of its words has one."""

OUTSIDE = "O"
"""The BIO label of a word that belongs to no entity."""


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
        """The place of the first part, as in corpus.csv:17."""
        return self.place(0)

    def place(self, part: int) -> str:
        return f"{self.file}:{self.lines[part]}"


@dataclass(frozen=True)
class Source:
    """Examples that can be read any number of times."""

    name: str
    reason: str
    """The way in which it is read, and why."""
    read: Callable[[Counter[str]], Iterator[Example]]
    """Yields the examples, and counts repairs."""
    columns: tuple[str, str] | None = None
    """The names of the columns of the text and the label, or their numbers from 1."""


def shortened(label: str, depth: int | None) -> str:
    """Return the first `depth` parts of a label, between colons. It is shown on one line, so line breaks become spaces.
    Equal labels are one string, which saves a third of the memory of tagged text.

    >>> shortened("NUM:dist", 1), shortened("very\\ngood", None)
    ('NUM', 'very good')
    """
    one_line = " ".join(label.split())
    return sys.intern(one_line if depth is None else ":".join(one_line.split(":")[:depth]))


def is_bio(labels: Collection[str]) -> bool:
    """Return True if labels mark entities in the BIO scheme: B-type at the beginning of an entity, I-type inside, O
    outside (IOB2, Tjong Kim Sang and Veenstra 1999).

    >>> is_bio({"O", "B-person", "I-person"}), is_bio({"O", "B-"})
    (True, False)
    """
    return OUTSIDE in labels and all(label == OUTSIDE or re.match("[BI]-.", label) for label in labels)


def begun(labels: Sequence[str]) -> tuple[str, ...]:
    """Return BIO labels whose entities all begin with B-, as in IOB2. An entity that begins with I- is a mistake, or of
    the older scheme IOB1 (Ramshaw and Marcus 1995).

    >>> begun(["I-person", "B-person", "I-person", "O"])
    ('B-person', 'B-person', 'I-person', 'O')
    """
    return tuple(
        sys.intern(f"B-{label[2:]}") if label.startswith("I-") and before[2:] != label[2:] else label
        for before, label in zip((OUTSIDE, *labels), labels, strict=False)
    )
