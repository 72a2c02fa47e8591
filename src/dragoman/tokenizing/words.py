"""Words, and the tokens that spell them."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from typing import NamedTuple

from dragoman.surface.words import places_of_words, split_words
from dragoman.tokenizing.tokenizer import Tokenizer

_NO_CHARACTER = re.compile("[\udc80-\udcff]")


class Word(NamedTuple):
    """A word, and its range of tokens from `first` up to, but not including, `last`."""

    text: str
    first: int
    last: int


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Word]:
    """Return the words that tokens spell, in order; the symbol for an unknown word is a word.

    Each token belongs to one word, and spaces to the word after them. The symbols around a text belong to no word.
    """
    shown = [(place, tokenizer.spelling(id_)) for place, id_ in enumerate(ids) if tokenizer.is_text(id_)]
    if tokenizer.whole_words:
        return [Word(spelled.decode(), place, place + 1) for place, spelled in shown]
    line = b"".join(spelled for _, spelled in shown)
    characters, beginnings = _characters_and_words(line)
    numbered, number, start = [], 1, 0
    for place, spelled in shown:
        end = start + len(spelled)
        if start in characters:  # a token that begins inside a character stays with the one before
            visible = end - len(spelled.lstrip())
            number = max(bisect_right(beginnings, visible if visible < end else end), 1)
        numbered.append((number, place, spelled))
        start = end
    words = []
    for _, group in groupby(numbered, key=itemgetter(0)):
        tokens = list(group)
        spelled = b"".join(token for _, _, token in tokens).decode(errors="replace").strip()
        words.append(Word(spelled, tokens[0][1], tokens[-1][1] + 1))
    return words


def words_in_tokens(tokenizer: Tokenizer, text: str, words: Sequence[str], symbols: int = 0) -> list[Word]:
    """Return `words` with the tokens of `encode(text)` that overlap them, counted after a number of special symbols.

    A token of spaces belongs to the word after it, as in `words_of`.
    """
    tokens, in_tokens, end = tokenizer.offsets(text), [], 0
    for word in words:
        before, start = end, text.index(word, end)
        end = start + len(word)
        touched = [
            place
            for place, (first, last) in enumerate(tokens, symbols)
            if first < end and (last > start or (last >= before and not text[first:last].strip()))
        ]
        in_tokens.append(Word(word, touched[0], touched[-1] + 1) if touched else Word(word, 0, 0))
    return in_tokens


def words_written(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> list[Word]:
    """Return the words of a text that was decoded from `ids`, with the tokens that share a letter with them.

    `words_of` may split the same text into other words, because it follows the tokenizer.
    """
    spelled = words_of(tokenizer, ids)
    ends = [*accumulate(_visible(word.text) for word in spelled)]
    written, end = [], 0
    for word in split_words(text):
        begin, end = end, end + _visible(word)
        shared = spelled[bisect_right(ends, begin) : bisect_left(ends, end) + 1]
        written.append(Word(word, shared[0].first, shared[-1].last) if shared else Word(word, 0, 0))
    return written


def _visible(text: str) -> int:
    """Return the number of visible characters of a text."""
    return sum(not (character.isspace() or character == "\0") for character in text)


def _characters_and_words(line: bytes) -> tuple[set[int], list[int]]:
    """Return the places where characters begin, and those where words begin."""
    text = line.decode(errors="surrogateescape")
    places = [*accumulate((len(character.encode(errors="surrogateescape")) for character in text), initial=0)]
    # a byte that is not part of a character, which a model may write, counts as a mark
    words = places_of_words(_NO_CHARACTER.sub("\ufffd", text))
    return set(places), [places[first] for first, _ in words]
