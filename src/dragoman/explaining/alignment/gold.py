"""Aligned pairs from a file, and our own set of them: 100 English-Italian pairs, written and aligned for Dragoman.

One pair a line, three columns with tabs between them: source, target, and links such as `0-0 1-2 3?4`. A link names a
word of the source and a word of the target, counted from 0, as `split_words` finds them; `-` is a sure link and `?` a
possible one (Och and Ney 2003).

Of our own set, the pairs on odd lines (1, 3, 5 …) are for choosing a head, and those on even lines for judging the
choice. One person aligned it, by these rules:

- A word that unites two is surely linked to both: `della` to `of` and `the`, `aiutarmi` to `help` and `me`.
- Where two words render one, those that carry its meaning are sure, and those that grammar adds are possible: `ha` of
  `ha comprato` to `bought`, `Non` of `Non … mai` to `never`, `il` of `il mio` to `my`, `di` of `di mia sorella`.
- A pronoun that Italian drops is possible to the verb that implies it. So are `do`, `did` and `will`, the `to` of an
  infinitive, and the particle of a verb such as `look for`, unless a word of the other side stands for them.
- Inside an idiom every word is possible to every word.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path

from dragoman.aligning.attention import Link
from dragoman.errors import DataError
from dragoman.explaining.alignment.links import AlignedPair
from dragoman.text.lines import read_lines

_OWN = "gold.en-it.tsv"
_LINK = re.compile(r"(\d{1,4})([-?])(\d{1,4})", re.ASCII)


def read_gold(path: Path | str) -> list[AlignedPair]:
    """The aligned pairs of a file, in order.

    Raises:
        DataError: the file cannot be read, or a line is not as described above; names the line.
    """
    return list(_pairs(read_lines(Path(path)), str(path)))


def own_gold(source: str = "en", target: str = "it") -> list[AlignedPair]:
    """Our own aligned pairs in these languages; empty for any but English and Italian.

    >>> own_gold()[4].source, own_gold("it", "en")[4].target
    ("The children's shoes are wet because it rained.", "The children's shoes are wet because it rained.")
    """
    languages = (source.partition("-")[0], target.partition("-")[0])
    if set(languages) != {"en", "it"}:
        return []
    lines = (files("dragoman.explaining.alignment") / _OWN).read_text(encoding="utf-8").splitlines()
    pairs = list(_pairs(lines, _OWN))
    return pairs if languages == ("en", "it") else [pair.reversed for pair in pairs]


def halves(pairs: Sequence[AlignedPair]) -> tuple[list[AlignedPair], list[AlignedPair]]:
    """The pairs to choose by, on odd lines, and those to judge the choice by, on even lines."""
    return list(pairs[::2]), list(pairs[1::2])


def _pairs(lines: Iterable[str], name: str) -> Iterator[AlignedPair]:
    for number, line in enumerate(lines, 1):
        try:
            yield _pair(line)
        except DataError as error:
            raise DataError(f"{name}:{number}: {error}") from None


def _pair(line: str) -> AlignedPair:
    columns = line.split("\t")
    if len(columns) != 3:
        raise DataError(
            f"an aligned pair is source, target and links with tabs between them, not {len(columns)} columns"
        )
    source, target, written = columns
    for side, text in (("source", source), ("target", target)):
        if not text.strip():
            raise DataError(f"the {side} is blank")
    links: dict[Link, str] = {}
    for each in written.split():
        link, sign = _link(each)
        if link in links:
            raise DataError(f"words {link[0]} and {link[1]} are linked twice")
        links[link] = sign
    if not links:
        raise DataError("no links; write them as in 0-0 1-2 3?4")
    sure, unsure = (frozenset(link for link, sign in links.items() if sign == kind) for kind in "-?")
    pair = AlignedPair(source, target, sure, unsure)
    _check_places(pair)
    return pair


def _link(written: str) -> tuple[Link, str]:
    if not (found := _LINK.fullmatch(written)):
        raise DataError(
            f"'{written}' is not a link; a link is two numbers of words, sure as in 3-4 or possible as in 3?4"
        )
    return (int(found[1]), int(found[3])), found[2]


def _check_places(pair: AlignedPair) -> None:
    for link in sorted(pair.possible):
        for side, words, place in zip(("source", "target"), (pair.source_words, pair.target_words), link, strict=True):
            if place >= len(words):
                raise DataError(
                    f"a link names word {place} of the {side}; its {len(words)} words, from 0, are {' '.join(words)}"
                )
