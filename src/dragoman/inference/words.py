"""Words, and the tokens that spell them: people ask about words, and models speak in pieces."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate, groupby
from operator import itemgetter
from typing import NamedTuple

from tokenizers import Regex, pre_tokenizers

from dragoman.tokenizing.tokenizer import Tokenizer

_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_LETTER = rf"[\w\u00AD\u200C\u200D&&[^{_SPACELESS}]]"  # marks too, soft hyphens, and what joins letters or parts them
_WORD = rf"{_LETTER}+['’](?=\w{{3}})|{_LETTER}+(?:['’]\w{{1,2}}\b)?['’]?|(?![\s\x1C-\x1F])\X"
_WORDS = pre_tokenizers.Split(Regex(_WORD), "removed", invert=True)  # Python's own `re` takes marks for no letters

_NO_CHARACTER = re.compile("[\udc80-\udcff]")


class Word(NamedTuple):
    """A word, and its tokens: those from `first` up to, but not including, `last`."""

    text: str
    first: int
    last: int


def split_words(text: str) -> list[str]:
    """The words and marks of a text. An elided article stands alone before a word of three letters or more.

    In scripts without spaces, such as Han, kana and Thai, every character is a word.

    >>> split_words("Don't! L'amica c'è.")
    ["Don't", '!', "L'", 'amica', "c'è", '.']
    """
    return [word for word, _ in _WORDS.pre_tokenize_str(text)]


def places_of_words(text: str) -> list[tuple[int, int]]:
    """Where each word and mark of a text begins, and where it ends.

    >>> places_of_words("Don't go")
    [(0, 5), (6, 8)]
    """
    return [place for _, place in _WORDS.pre_tokenize_str(text)]


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Word]:
    """The words that tokens spell, in order. What stands for an unknown word is a word.

    Every token belongs to one word, spaces to the one after them; the symbols around a text belong to none.
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
    """The tokens of `encode(text)` that each word touches, after so many special symbols, whatever the tokenizer takes
    for a word.

    A token of spaces alone belongs to the word after it, as in `words_of`.
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
    """The words of a text that was decoded from `ids`, and the tokens of each: those that share a letter with it.

    They are those of `words_of`, except that what the tokenizer takes for several words may be one of the text, or the
    other way round.
    """
    spelled = words_of(tokenizer, ids)
    ends = [*accumulate(_visible(word.text) for word in spelled)]
    written, end = [], 0
    for word in split_words(text):
        begin, end = end, end + _visible(word)
        shared = spelled[bisect_right(ends, begin) : bisect_left(ends, end) + 1]
        written.append(Word(word, shared[0].first, shared[-1].last) if shared else Word(word, 0, 0))
    return written


def places_in_line(line: str, parts: Sequence[str]) -> list[list[int]]:
    """For each word of each part of a line, the number of the word of the line that it belongs to.

    >>> places_in_line("Good morning. He sleeps.", ["Good morning.", "He sleeps."])
    [[0, 1, 2], [3, 4, 5]]
    """
    begins = [first for first, _ in places_of_words(line)]
    places, end = [], 0
    for part in parts:
        start = line.index(part, end)
        end = start + len(part)
        places.append([bisect_right(begins, start + first) - 1 for first, _ in places_of_words(part)])
    return places


def matching_words(one: str, other: str) -> dict[int, int]:
    """Which word of another text each word of one is, where both say the same in other letters and marks.

    >>> matching_words("It's fine.", "“IT’S FINE!!”")
    {0: 1, 1: 2, 2: 3}
    """
    sides = [[word.casefold().replace("’", "'") for word in split_words(text)] for text in (one, other)]
    matching: dict[int, int] = {}
    for kind, first, last, other_first, other_last in SequenceMatcher(None, *sides, autojunk=False).get_opcodes():
        if kind in ("equal", "replace"):
            matching.update(zip(range(first, last), range(other_first, other_last), strict=False))
    return matching


def _visible(text: str) -> int:
    """How many characters of a text a person sees."""
    return sum(not (character.isspace() or character == "\0") for character in text)


def _characters_and_words(line: bytes) -> tuple[set[int], list[int]]:
    """The places where characters begin, and those where words do. A byte that is no character, which a model may
    write, is a mark.
    """
    text = line.decode(errors="surrogateescape")
    places = [*accumulate((len(character.encode(errors="surrogateescape")) for character in text), initial=0)]
    words = _WORDS.pre_tokenize_str(_NO_CHARACTER.sub("\ufffd", text))
    return set(places), [places[first] for _, (first, _) in words]
