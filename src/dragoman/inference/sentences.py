"""Cuts text, by rules and without loss, into pieces that a model can take: joined, the pieces are the text again.

`split_sentences` finds the sentences, and `part_long_words` the strings that are too long to be words. `split_to_fit`
cuts a sentence that is too long at its clauses, at its spaces, or between any two characters. If in doubt, a sentence
stays whole. The time is linear in the length of the text. `join` makes one text of translated pieces.
"""

import re
import sys
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from dragoman.text.languages import SPACELESS

# A mark that may end a sentence, with closing quotes and brackets behind it, and white space; or a full-width mark,
# which needs no space; or a line break. The lookbehind and the possessive `++` read every run once, so that a megabyte
# of full stops takes no longer than other text.
_END = re.compile(
    r"""(?<![.!?…؟۔।။።])(?P<mark>[.!?…؟۔।။።]++) (?P<closing>(?:[ \u00a0\u202f]?[»›]|["'”’)\]}])*+) \s++
      | [。！？｡．]++ ["'”’」』）】〉》]*+ \s*+
      | [\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*+""",
    re.VERBOSE,
)
_OPENING = re.compile(r"[\"'“‘„‚«‹(\[{¿¡\-–—*• ]*+")

# Abbreviations that stand before a name and so seldom end a sentence, without their last full stop. Those of single
# letters (z.B., p.m.) need no list.
_BEFORE_NAMES = frozenset(
    """
    mr mrs ms messrs dr prof st sr rev hon gen capt lt sgt gov sen rep pres mt ft vs approx dept cf viz resp eds
    sig sigg sig.ra sig.na dott dott.ssa prof.ssa ing avv arch geom egr gent spett ad.es p.es cfr vd
    hr fr frl bzw ca o.ä vgl evtl ggf inkl exkl zzgl str bd bspw sog geb gest
    mme mlle mgr av p.ex c.-à-d env
    """.split()
)
_BEFORE_NUMBERS = frozenset("no nos n nn nr num p pp pag pagg s abs art artt cap chap ch sec vol fig figs tel".split())
_ORDINAL = re.compile(
    r"(?:januar|jänner|februar|märz|april|mai|juni|juli|august|september|oktober|november|dezember|jahrhundert|klasse|"
    r"stock|geburtstag)\b",
    re.IGNORECASE,
)
_BEFORE_WORD = re.compile(r"[\s\"'“”‘’„«»()\[\]{}¿¡/]")
_SPACES = re.compile(r"\s*+")
_LONGEST_ABBREVIATION = 20
_LONGEST_ORDINAL = 40  # characters after a full stop that tell whether it makes an ordinal number
_LONGEST_CHARACTER = 64  # accents on one letter, or parts of one emoji

_SPACELESS_CHARACTER = re.compile(f"[{SPACELESS}]")

LONGEST_WORD = 100
"""Most characters of a word, in scripts that put spaces between words.

In 25 million characters of English, Italian, German and French text no word has more than 80; a longer run is an
address, a key or an encoded file.
"""
_LONGER_WORD = re.compile(rf"(?<![^\s{SPACELESS}])[^\s{SPACELESS}]{{{LONGEST_WORD + 1},}}+")

# One line in, one line out: NUL, and whatever any program might take for the end of a line.
_BREAKS = re.compile("[\0\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

# Where a sentence that is too long is cut, the gentlest kind first. Each place is the end of a match.
_CUTS = (
    re.compile(r"[,;:—–]\s++|[，；：、،؛]|(?<![.!?…])[.!?…]++[\"'”’»)\]]*+\s++|(?<!\s)\s++[—–-]\s++"),
    re.compile(r"\s++"),
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, each with the white space behind it.

    >>> split_sentences("Dr. Rossi paid 3.50 euros. “Why?” No one asked.")
    ['Dr. Rossi paid 3.50 euros. ', '“Why?” ', 'No one asked.']
    """
    pieces, begin = [], 0
    for end in _ends(text):
        pieces.append(text[begin:end])
        begin = end
    return [*pieces, text[begin:]] if begin < len(text) else pieces


def part_long_words(text: str) -> list[tuple[str, bool]]:
    """The text in pieces, and whether each is a word of more than `LONGEST_WORD` characters, which no vocabulary holds.

    >>> part_long_words("See " + "x" * 101 + " there.") == [("See ", False), ("x" * 101, True), (" there.", False)]
    True
    """
    pieces, begin = [], 0
    for match in _LONGER_WORD.finditer(text):
        pieces += [(text[begin : match.start()], False), (match[0], True)]
        begin = match.end()
    return [piece for piece in [*pieces, (text[begin:], False)] if piece[0]]


def split_to_fit(text: str, fits: Callable[[str], bool], at_most: int = sys.maxsize) -> list[str]:
    """The text in pieces that fit: cut near the middle, at the gentlest kind of place there, again and again.

    `fits` is asked only about pieces of `at_most` characters, because no longer one fits. A single character is never
    cut, fit or not.

    >>> split_to_fit("one two, three four five", lambda piece: len(piece) <= 12)
    ['one two, ', 'three ', 'four five']
    """
    kinds: list[list[int]] = []

    def cut(begin: int, end: int) -> Iterator[str]:
        if end - begin < 2 or (end - begin <= at_most and fits(text[begin:end])):
            yield text[begin:end]
            return
        if not kinds:
            kinds.extend([match.end() for match in places.finditer(text)] for places in _CUTS)
        place = _cut(text, begin, end, kinds)
        yield from cut(begin, place)
        yield from cut(place, end)

    return list(cut(0, len(text)))


def join(pieces: Iterable[str]) -> str:
    """Translated pieces as one text.

    >>> join(["Hello.", "", "Bye."])
    'Hello. Bye.'
    """
    parts, last = [], ""
    for piece in filter(None, pieces):
        parts += [separator(last, piece), piece]
        last = piece
    return "".join(parts)


def one_line(text: str) -> tuple[str, int]:
    """A text as one line, and how many characters became spaces for it."""
    text, count = _BREAKS.subn(" ", text)
    return text.strip(), count


def separator(before: str, after: str) -> str:
    """What to put between two translated pieces: a space, or nothing next to a script that writes none.

    >>> separator("Hello.", "Bye."), separator("你好。", "再见。")
    (' ', '')
    """
    return "" if not before or not after or spaceless(before[-1]) or spaceless(after[0]) else " "


def spaceless(character: str) -> bool:
    """Whether the character belongs to a script written without spaces between words, such as Han, kana or Thai."""
    return _SPACELESS_CHARACTER.match(character) is not None


def _ends(text: str) -> Iterator[int]:
    """Where sentences end, white space included."""
    begin = _after_space(text, 0)
    for match in _END.finditer(text):
        if match["mark"] and not _is_end(text, begin, match):
            continue
        if match.end() > begin:
            yield match.end()
            begin = _after_space(text, match.end())


def _after_space(text: str, place: int) -> int:
    """The first place from `place` on that holds no white space."""
    spaces = _SPACES.match(text, place)
    return spaces.end() if spaces else place


def _is_end(text: str, begin: int, match: re.Match[str]) -> bool:
    """Whether a mark followed by white space ends the sentence whose first word is at `begin`."""
    opening = _OPENING.match(text, match.end())
    place = opening.end() if opening else match.end()
    after = text[place : place + _LONGEST_ORDINAL]
    if after and after[0].islower():
        return False
    if match["mark"] != "." or match["closing"]:
        return True
    word = _BEFORE_WORD.split(text[max(begin, match.start() - _LONGEST_ABBREVIATION) : match.start()])[-1]
    if len(word) == 1 and word.isupper():
        return False  # an initial
    if re.fullmatch(r"(?:[^\W\d_]\.)+[^\W\d_]", word):
        return False  # e.g., U.S., z.B.
    if word.isdigit():
        listed = match.start() - len(word) == begin
        return not (listed or (len(word) <= 2 and _ORDINAL.match(after)))
    return word.lower() not in _BEFORE_NAMES and not (word.lower() in _BEFORE_NUMBERS and after[:1].isdigit())


def _cut(text: str, begin: int, end: int, kinds: Sequence[Sequence[int]]) -> int:
    """The place to cut between `begin` and `end`: of the gentlest kind that occurs, the one nearest the middle."""
    middle = (begin + end) // 2
    for places in kinds:
        after = bisect_left(places, middle)
        near = [place for place in places[max(0, after - 1) : after + 1] if begin < place < end]
        if near:
            return min(near, key=lambda place: abs(place - middle))
    back = range(middle, max(begin, middle - _LONGEST_CHARACTER), -1)
    return next((place for place in back if not _parts(text, place)), middle)


def _parts(text: str, place: int) -> bool:
    """Whether a cut here would part an accent from its letter, or an emoji."""
    return unicodedata.category(text[place]) in ("Mn", "Mc", "Me", "Cf") or text[place - 1] == "\u200d"
