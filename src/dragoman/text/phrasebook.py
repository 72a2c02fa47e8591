"""The phrasebook: English-Italian pairs that this project wrote itself, text for training without a network.

They were made by ``tools/make_phrasebook.py`` and are stored next to this file. A line of ``phrasebook.tsv.gz`` has a
sentence's place, set, origin, topic, parts of speech, English and Italian. Sentences of one pattern are adjacent, which
makes the file a third smaller; they are read in the order of their places.
"""

import gzip
import re
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from dragoman.files import write_file

WORDS = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
TOKEN = re.compile(r"o'clock|\w+(?=n't\b)|n't\b|'\w+|\w+(?:-\w+)*|[^\w\s]")


class Sentence(NamedTuple):
    """A pair and its labels."""

    source: str
    target: str
    origin: str
    """File and line of the pattern that made it; where one line makes several, a number after a point."""
    topic: str
    tags: tuple[str, ...]
    """The part of speech of each of `words`, as Universal Dependencies names it."""

    @property
    def words(self) -> list[str]:
        """The words and marks of the English, cut as in the treebanks of Universal Dependencies.

        >>> Sentence("I don't know.", "Non lo so.", "here:1", "home", ("PRON", "AUX", "PART", "VERB", "PUNCT")).words
        ['I', 'do', "n't", 'know', '.']
        """
        return TOKEN.findall(self.source)


class Phrasebook(NamedTuple):
    """Four sets: training, development, new words in known patterns, and patterns that training never sees. No text of
    either side occurs twice, in one set or in two.
    """

    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]
    new_patterns: list[Sentence]


def read_phrasebook() -> Phrasebook:
    """Read all sentences, in well under a second."""
    text = gzip.decompress((files("dragoman.text") / "phrasebook.tsv.gz").read_bytes()).decode()
    rows = [line.split("\t") for line in text.splitlines()]
    rows.sort(key=lambda row: int(row[0]))
    sets = Phrasebook([], [], [], [])
    for _, name, origin, topic, tags, source, target in rows:
        getattr(sets, name).append(Sentence(source, target, origin, topic, tuple(tags.split(" "))))
    return sets


def write_phrasebook(folder: Path) -> None:
    """Write each set as two aligned files, ``train.en`` and ``train.it``."""
    for name, sentences in read_phrasebook()._asdict().items():
        write_file(folder / f"{name}.en", "".join(sentence.source + "\n" for sentence in sentences))
        write_file(folder / f"{name}.it", "".join(sentence.target + "\n" for sentence in sentences))


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case.

    >>> words("Where's the X-ray?")
    ["where's", 'the', 'x-ray']
    """
    return WORDS.findall(text.lower())
