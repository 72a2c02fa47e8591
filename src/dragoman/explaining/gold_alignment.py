"""Alignment error rates of cross-attention, measured on sentences whose words a person linked.

Such pairs come from a file, or from our own set: 100 English-Italian pairs, written and aligned for Dragoman. One pair
a line, three columns with tabs between them: source, target, and links such as `0-0 1-2 3?4`. A link names a word of
the source and a word of the target, counted from 0, as `split_words` finds them; `-` is a sure link and `?` a possible
one (Och and Ney 2003).

One person aligned our own set, by these rules:

- A word that unites two is surely linked to both: `della` to `of` and `the`, `aiutarmi` to `help` and `me`.
- If two words render one, those that carry its meaning are sure, and those that grammar adds are possible: `ha` of
  `ha comprato` to `bought`, `Non` of `Non … mai` to `never`, `il` of `il mio` to `my`, `di` of `di mia sorella`.
- A pronoun that Italian drops is possible to the verb that implies it. So are `do`, `did` and `will`, the `to` of an
  infinitive, and the particle of a verb such as `look for`, unless a word of the other side renders them.
- Inside an idiom every word is possible to every word.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dragoman.errors import DataError
from dragoman.formats.lines import read_lines
from dragoman.inference.alignment import (
    AlignmentChoice,
    Word,
    align_words,
    split_words,
    words_in_tokens,
)
from dragoman.inference.teacher_forcing import ForcedText, cross_weights
from dragoman.inference.translator import Translator
from dragoman.languages import language_of
from dragoman.shapes import Float
from dragoman.surface.segment import Link, Links

_OWN = "gold.en-it.tsv"
_LINK = re.compile(r"(\d{1,4})([-?])(\d{1,4})", re.ASCII)
_AT_ONCE = 50
"""Pairs in one pass of the model."""


@dataclass(frozen=True)
class AlignedPair:
    """A sentence, its translation, and the links that a person drew between their words (`split_words`).

    >>> pair = AlignedPair("The dog sleeps.", "Dorme il cane.", frozenset({(0, 1), (1, 2), (2, 0), (3, 3)}))
    >>> pair.source_words
    ['The', 'dog', 'sleeps', '.']
    """

    source: str
    target: str
    sure: Links
    """Links that nobody would doubt."""
    unsure: Links = frozenset()
    """Links that another person might leave out: to function words that the other language lacks, inside idioms."""

    @property
    def possible(self) -> Links:
        """Sure links and the others: P in Och and Ney (2003), which contains S."""
        return self.sure | self.unsure

    @cached_property
    def source_words(self) -> list[str]:
        return split_words(self.source)

    @cached_property
    def target_words(self) -> list[str]:
        return split_words(self.target)

    @property
    def reversed(self) -> "AlignedPair":
        """The same pair for a model of the other direction."""
        sure, unsure = (frozenset((j, i) for i, j in links) for links in (self.sure, self.unsure))
        return AlignedPair(self.target, self.source, sure, unsure)


class Agreement(NamedTuple):
    """Number of links that a model and a person share: A of the model, S sure ones, P possible ones. Add agreements to
    judge a text.
    """

    sure_drawn: int
    """|A ∩ S|."""
    possible_drawn: int
    """|A ∩ P|."""
    drawn: int
    """|A|."""
    sure: int
    """|S|."""

    @property
    def precision(self) -> float:
        """Share of the model's links that are possible; 1 if it drew none."""
        return self.possible_drawn / self.drawn if self.drawn else 1.0

    @property
    def recall(self) -> float:
        """Share of sure links that the model drew; 1 if there are none."""
        return self.sure_drawn / self.sure if self.sure else 1.0

    @property
    def error_rate(self) -> float:
        """The alignment error rate, AER: 0 is perfect, 1 is the worst (Och and Ney 2003)."""
        total = self.drawn + self.sure
        return 1 - (self.sure_drawn + self.possible_drawn) / total if total else 0.0


def agree(links: Links, pair: AlignedPair) -> Agreement:
    """Compare a model's links with those of a person.

    >>> pair = AlignedPair("I sleep.", "Dormo.", frozenset({(1, 0), (2, 1)}), frozenset({(0, 0)}))
    >>> agree(frozenset({(0, 0), (2, 1)}), pair)
    Agreement(sure_drawn=1, possible_drawn=2, drawn=2, sure=2)
    """
    return Agreement(len(links & pair.sure), len(links & pair.possible), len(links), len(pair.sure))


def judge(text: Sequence[Links], pairs: Sequence[AlignedPair]) -> Agreement:
    """Return the agreement with a person over a text, in which every link counts the same."""
    agreements = [agree(links, pair) for links, pair in zip(text, pairs, strict=True)]
    return Agreement(*map(sum, zip(Agreement(0, 0, 0, 0), *agreements, strict=True)))


def read_gold(path: Path | str) -> list[AlignedPair]:
    """Read the aligned pairs of a file, in order."""
    return list(_pairs(read_lines(Path(path)), str(path)))


def own_gold(source: str = "en", target: str = "it") -> list[AlignedPair]:
    """Return our own aligned pairs in these languages; empty for any but English and Italian.

    >>> own_gold()[4].source, own_gold("it", "en")[4].target
    ("The children's shoes are wet because it rained.", "The children's shoes are wet because it rained.")
    """
    languages = tuple(language_of(name.partition("-")[0]) for name in (source, target))
    if set(languages) != {"en", "it"}:
        return []
    lines = (files("dragoman.explaining") / _OWN).read_text(encoding="utf-8").splitlines()
    pairs = list(_pairs(lines, _OWN))
    return pairs if languages == ("en", "it") else [pair.reversed for pair in pairs]


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
    for item in written.split():
        if not (parts := _LINK.fullmatch(item)):
            raise DataError(
                f"'{item}' is not a link; a link is two numbers of words, sure as in 3-4 or possible as in 3?4"
            )
        link = int(parts[1]), int(parts[3])
        if link in links:
            raise DataError(f"words {link[0]} and {link[1]} are linked twice")
        links[link] = parts[2]
    if not links:
        raise DataError("no links; write them as in 0-0 1-2 3?4")
    sure, unsure = (frozenset(link for link, sign in links.items() if sign == kind) for kind in "-?")
    pair = AlignedPair(source, target, sure, unsure)
    for link in sorted(pair.possible):
        for side, words, place in zip(("source", "target"), (pair.source_words, pair.target_words), link, strict=True):
            if place >= len(words):
                raise DataError(
                    f"a link names word {place} of the {side}; its {len(words)} words, from 0, are {' '.join(words)}"
                )
    return pair


def measure_alignment(translator: Translator, pairs: Sequence[AlignedPair] | None = None) -> AlignmentChoice:
    """Return the cross-attention that alignments are read from, with its alignment error rate on these pairs.

    Without pairs, those of our own that fit the model's positions are used for models between English and Italian. For
    other languages nothing is measured.
    """
    if not pairs:
        own, positions = own_gold(*translator.languages), translator.requests.positions
        pairs = [pair for pair in own if positions is None or _force(translator, [pair])[0].longest <= positions]
    choice = AlignmentChoice.of(translator.model.config)
    if not pairs:
        return choice
    return choice.measured(judge(align_pairs(translator, pairs, choice), pairs).error_rate, len(pairs))


def align_pairs(translator: Translator, pairs: Sequence[AlignedPair], choice: AlignmentChoice) -> list[Links]:
    """Return the links that a model draws in each pair, whose own links it does not see."""
    passes = pair_weights(translator, pairs)
    return [align_words(list(weights), source, target, choice).links for weights, source, target in passes]


def pair_weights(
    translator: Translator, pairs: Sequence[AlignedPair]
) -> Iterator[tuple[Float[np.ndarray, "L H T S"], list[Word], list[Word]]]:
    """Yield the cross-attention weights of all layers, and the words of source and target in them, for each pair."""
    positions = translator.requests.positions
    before, certain = len(translator.framing.source_before), len(translator.requests.before)
    before += translator.tags.target is not None  # its symbol, or that of the source language
    for first in range(0, len(pairs), _AT_ONCE):
        some = pairs[first : first + _AT_ONCE]
        forced = _force(translator, some)
        for number, text in enumerate(forced, first + 1):
            if positions is not None and text.longest > positions:
                raise DataError(
                    f"aligned pair {number}, {pairs[number - 1].source[:60]!r}, has {text.longest:,} tokens, but the "
                    f"model has positions for {positions:,}"
                )
        for pair, weights in zip(some, cross_weights(translator.model, forced), strict=True):
            source = words_in_tokens(translator.tokenizers.source, pair.source, pair.source_words, before)
            target = words_in_tokens(translator.tokenizers.target, pair.target, pair.target_words, certain)
            yield weights, source, target


def _force(translator: Translator, pairs: Sequence[AlignedPair]) -> list[ForcedText]:
    tags = translator.tags
    sources = translator.tokenizers.source.encode_batch(tags.tagged([pair.source for pair in pairs], None))
    targets = translator.tokenizers.target.encode_batch([tags.tagged_target(pair.target) for pair in pairs])
    return [ForcedText.of(translator.framing, *ids) for ids in zip(sources, targets, strict=True)]
