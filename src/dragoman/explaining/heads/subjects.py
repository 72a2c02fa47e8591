"""Subjects of verbs, as treebanks of Universal Dependencies mark them (universaldependencies.org/format.html).

A file holds sentences in CoNLL-U; of each, its text and the verbs with their subjects are read. `word_pairs` finds them
among the words of a model, which are cut in another way.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.text.reading.lines import read_lines

Span = tuple[int, int]
"""First and last + 1."""

COLUMNS = 10
_VERBS = {"VERB", "AUX"}


class Subject(NamedTuple):
    """A verb and its subject, as characters of a sentence."""

    verb: Span
    subject: Span


class Tree(NamedTuple):
    """What is read of one sentence."""

    text: str
    subjects: tuple[Subject, ...]


def read_trees(path: Path | str) -> list[Tree]:
    """The sentences of a CoNLL-U file. Subjects are the `nsubj` dependants, subtypes included, of words that are tagged
    as verbs or auxiliaries. The words of a multiword token ("don't") share its characters; empty nodes are left out.

    Raises:
        DataError: the file cannot be read, is not CoNLL-U, or names no subject; the error names the line.
    """
    path = Path(path)
    trees = [_tree(lines) for lines in _sentences(path)]
    if not any(tree.subjects for tree in trees):
        raise DataError(f"{path} holds {len(trees):,} sentences, but no nsubj of a verb; are its trees annotated?")
    return trees


def word_pairs(tree: Tree, words: Sequence[Span]) -> list[tuple[int, int]]:
    """The words of each verb and its subject, by number; `words` are those of the same text, as characters.

    Pairs that are a single word here, as in "I'm", are left out.
    """
    pairs = [(overlapping(verb, words), overlapping(subject, words)) for verb, subject in tree.subjects]
    return [(verb, subject) for verb, subject in pairs if verb is not None and subject is not None and verb != subject]


def overlapping(span: Span, words: Sequence[Span]) -> int | None:
    """The word that shares the most characters with a span."""
    shared = [min(span[1], last) - max(span[0], first) for first, last in words]
    best = max(range(len(words)), key=shared.__getitem__, default=None)
    return best if best is not None and shared[best] > 0 else None


@dataclass
class _Line:
    """A word, or with `last` the surface of the words from `id` to `last`."""

    place: str
    """File and line, for messages."""
    id: int
    last: int | None
    form: str
    tag: str
    head: int
    relation: str
    space_after: bool


@dataclass
class _Surface:
    """A text that grows token by token."""

    text: str = ""
    spans: dict[int, Span] = field(default_factory=dict)
    """The characters of each word."""
    space: bool = False

    def add(self, line: _Line) -> None:
        first = len(self.text) + self.space
        self.text += " " * self.space + line.form
        self.spans.update(dict.fromkeys(range(line.id, (line.last or line.id) + 1), (first, len(self.text))))
        self.space = line.space_after


def _tree(lines: Sequence[_Line]) -> Tree:
    words = {line.id: line for line in lines if line.last is None}
    surface = _Surface()
    for line in lines:
        if line.id not in surface.spans:  # words of a multiword token have their characters already
            surface.add(line)
    for line in lines:
        if not 0 <= line.head <= len(words) or line.head == line.id:
            raise DataError(f"{line.place}: word {line.id} has head {line.head}, in a sentence of {len(words)} words")
        if line.last is not None and not line.id < line.last <= len(words):
            raise DataError(f"{line.place}: {line.id}-{line.last} is no range in a sentence of {len(words)} words")
    subjects = (
        Subject(surface.spans[word.head], surface.spans[word.id])
        for word in words.values()
        if word.relation.partition(":")[0] == "nsubj" and word.head and words[word.head].tag in _VERBS
    )
    return Tree(surface.text, tuple(subjects))


def _sentences(path: Path) -> Iterator[list[_Line]]:
    """The lines of each sentence, without comments and empty nodes."""
    lines: list[_Line] = []
    words = 0
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            if lines:
                yield lines
            lines, words = [], 0
        elif not line.startswith("#"):
            read = _read(f"{path}:{number}", line.split("\t"))
            if read is None:
                continue
            if read.id != words + 1:
                raise DataError(f"{read.place}: word {read.id} stands where word {words + 1} should")
            words += read.last is None
            lines.append(read)
    if lines:
        yield lines


def _read(place: str, columns: Sequence[str]) -> _Line | None:
    """One line; None for an empty node."""
    if len(columns) != COLUMNS:
        raise DataError(f"{place} has {len(columns)} columns separated by tabs, but CoNLL-U has {COLUMNS}")
    id_, form, _, tag, _, _, head, relation, _, miscellany = columns
    if re.fullmatch(r"\d+\.\d+", id_):
        return None
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", id_)
    if not found:
        raise DataError(f"{place}: the ID {id_!r} is not a number, a range (3-4) or an empty node (3.1)")
    last = int(found[2]) if found[2] else None
    if last is None and not head.isdecimal():
        raise DataError(f"{place}: the HEAD of word {id_} is {head!r}, not a number; its sentence has no tree")
    spaced = "SpaceAfter=No" not in miscellany.split("|")
    return _Line(place, int(found[1]), last, form, tag, int(head) if last is None else 0, relation, spaced)
