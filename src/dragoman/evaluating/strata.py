"""Parts of a test set and changed texts: scores by length, rare words, numbers, names and form, and the cost of a
typing error, other letter case or joined sentences.

The texts of a part may be harder for more reasons than the one in its name. Changed texts are compared with themselves
unchanged.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from dragoman.data.variation import add_noise
from dragoman.surface.letters import lower, upper
from dragoman.surface.protected import Names, quantities_in
from dragoman.surface.sentences import split_sentences

RARE = 5
"""A word is rare if the training text has it at most this number of times."""
LENGTHS = ("up to 10 words", "11 to 20 words", "more than 20 words", "two sentences", "three sentences or more")
WORDS = ("only frequent words", "a rare word", "a word that training lacks")
SIGNS = ("a number", "a name", "capitals only", "quotes", "no end mark")
LETTERS = re.compile(r"[^\W\d_]+")
_QUOTES, _END = re.compile(r"[\"“”„«»]"), re.compile(r"[.!?…。！？]+[\"”»)]*\s*\Z")


def strata(sources: Sequence[str], names: Names, counts: Mapping[str, int]) -> dict[str, list[int]]:
    """Return the lines of each part of a test set. `counts` are those of the words of the training text, in lower case;
    empty if it is not known.
    """
    parts: dict[str, list[int]] = {name: [] for name in (*LENGTHS, *(WORDS if counts else ()), *SIGNS)}
    for number, text in enumerate(sources):
        sentences, words = len(split_sentences(text)), len(text.split())
        parts[LENGTHS[min(sentences, 3) + 1 if sentences > 1 else (words > 10) + (words > 20)]].append(number)
        if counts:
            least = min((counts.get(word, 0) for word in LETTERS.findall(text.lower())), default=RARE + 1)
            parts[WORDS[(least <= RARE) + (least == 0)]].append(number)
        signs = quantities_in(text), names.all(text), text.isupper(), _QUOTES.search(text), not _END.search(text)
        for name in (name for name, is_in in zip(SIGNS, signs, strict=True) if is_in):
            parts[name].append(number)
    return parts


Line = tuple[str, str, str]
"""A source, its translation and its reference."""


def changed_texts(
    lines: Sequence[Line], languages: tuple[str, str]
) -> Iterator[tuple[str, list[Line], Callable[[str], str]]]:
    """Yield the name of each change; lines, with a changed source, and the translation of the unchanged one and the
    reference in the form that fits it; and a function that brings a translation into this form, as far as both of its
    forms are right.
    """
    draws, no_end, no_quotes = random.Random(1), partial(_END.sub, ""), partial(_QUOTES.sub, "")
    changes: dict[str, Any] = {  # of the source, of the expected translation, and of the translation
        "one typing error": (
            lambda text: add_noise(text, "", iter([0.9, *(draws.random() for _ in "abc")]))[0],
            str,
            str,
        ),
        "no end mark": (no_end, no_end, no_end),
        "capitals only": (*(partial(upper, language=language) for language in languages), str),
        "lower case only": (*(partial(lower, language=language) for language in languages), str),
        "in quotes": ('"{}"'.format, no_quotes, no_quotes),
    }
    for name, (change, expect, fit) in changes.items():
        changed = [(change(source), source, *map(expect, sides)) for source, *sides in lines]
        yield name, [(new, *sides) for new, source, *sides in changed if new != source], fit
    ended = [line for line in lines if _END.search(line[0])]
    for name, size in (("two sentences in a line", 2), ("a paragraph of five sentences", 5)):
        groups = (zip(*ended[first : first + size], strict=True) for first in range(0, len(ended) - size + 1, size))
        yield name, [(" ".join(source), " ".join(text), " ".join(own)) for source, text, own in groups], str
