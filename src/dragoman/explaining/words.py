"""Pieces to words: people ask about words, and models speak in pieces."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from dragoman.tokenizing.tokenizer import Tokenizer

_WORD = re.compile(r"\w+['’](?=\w{3})|\w+(?:['’]\w{1,2}\b)?['’]?|[^\w\s]")


class Word(NamedTuple):
    """A word, and its tokens: those from `first` up to, but not including, `last`."""

    text: str
    first: int
    last: int


def split_words(text: str) -> list[str]:
    """The words and marks of a text. An elided article stands alone before a word of three letters or more.

    >>> split_words("Don't! L'amica c'è.")
    ["Don't", '!', "L'", 'amica', "c'è", '.']
    """
    return _WORD.findall(text)


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Word]:
    """The words that tokens spell, in order. Every token belongs to one word, and special symbols to none."""
    shown = [(place, tokenizer.spelling(id_)) for place, id_ in enumerate(ids) if not tokenizer.is_special(id_)]
    if tokenizer.kind in ("word", "spacy"):
        return [Word(spelled.decode(), place, place + 1) for place, spelled in shown]
    text = b"".join(spelled for _, spelled in shown).decode(errors="replace")
    beginnings = [len(text[: word.start()].encode()) for word in _WORD.finditer(text)]
    ends = list(accumulate(len(spelled) for _, spelled in shown))
    numbered = []
    for (place, spelled), end in zip(shown, ends, strict=True):
        visible = end - len(spelled.lstrip())
        number = bisect_right(beginnings, visible if visible < end else end)
        numbered.append((number, place, spelled))
    words = []
    for _, group in groupby(numbered, key=lambda each: each[0]):
        tokens = list(group)
        spelled = b"".join(each for _, _, each in tokens).decode(errors="replace").strip()
        words.append(Word(spelled, tokens[0][1], tokens[-1][1] + 1))
    return words
