"""Text in pieces that a model can take, by rules and without loss: the pieces of a text, joined, are the text.

Sentences first (`split_sentences`), and what is still too long at its clauses, at its spaces, or between any two
characters (`split_to_fit`). In doubt a sentence is left whole. `separator` is for the way back.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator

# A mark that may end a sentence, closing quotes and brackets behind it, and white space; or a full-width mark, after
# which no space is needed; or a line break, whatever stands before it. Every run is read once (the lookbehind, the
# possessive `++`), so that a megabyte of full stops takes no longer than other text.
_END = re.compile(
    r"""(?<![.!?…؟۔।။።])(?P<mark>[.!?…؟۔।။።]++) (?P<closing>(?:[ \u00a0\u202f]?[»›]|["'”’)\]}])*+) \s++
      | [。！？｡．]++ ["'”’」』）】〉》]*+ \s*+
      | [\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*+""",
    re.VERBOSE,
)
_OPENING = "\"'“‘„‚«‹([{¿¡-–—*•"

# Abbreviations that stand before a name and so seldom end a sentence, without their last full stop; those of single
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
_LONGEST_ABBREVIATION = 20

# Where too long a sentence is cut, the gentlest first. Each place is the end of a match.
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


def split_to_fit(text: str, fits: Callable[[str], bool]) -> list[str]:
    """The text in pieces that fit, cut near the middle at the gentlest place there is, and again where needed.

    A single character is never cut, fit or not.

    >>> split_to_fit("one two, three four five", lambda piece: len(piece) <= 12)
    ['one two, ', 'three ', 'four five']
    """
    if len(text) < 2 or fits(text):
        return [text]
    cut = _cut(text)
    return split_to_fit(text[:cut], fits) + split_to_fit(text[cut:], fits)


def separator(before: str, after: str) -> str:
    """What stands between two translated pieces: a space, or nothing next to a script that writes none.

    >>> separator("Hello.", "Bye."), separator("你好。", "再见。")
    (' ', '')
    """
    return "" if not before or not after or spaceless(before[-1]) or spaceless(after[0]) else " "


def spaceless(character: str) -> bool:
    """Whether the character belongs to a script written without spaces: Han, kana, Thai, Lao, Khmer, Burmese."""
    code = ord(character)
    return (
        0x0E00 <= code <= 0x0EFF
        or 0x1000 <= code <= 0x109F
        or 0x1780 <= code <= 0x17FF
        or 0x2E80 <= code <= 0x9FFF
        or 0xF900 <= code <= 0xFAFF
        or 0xFF01 <= code <= 0xFF9F
        or 0x20000 <= code <= 0x3FFFF
    )


def _ends(text: str) -> Iterator[int]:
    """Where sentences end, white space included."""
    begin = 0
    for match in _END.finditer(text):
        if match["mark"] and not _is_end(text, begin, match):
            continue
        if text[begin : match.end()].strip():
            begin = match.end()
            yield begin


def _is_end(text: str, begin: int, match: re.Match[str]) -> bool:
    """Whether a mark followed by white space ends the sentence that began at `begin`."""
    after = text[match.end() :].lstrip(_OPENING + " ")[:40]
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
        listed = text[begin : match.start()].strip() == word
        return not (listed or (len(word) <= 2 and _ORDINAL.match(after)))
    return word.lower() not in _BEFORE_NAMES and not (word.lower() in _BEFORE_NUMBERS and after[:1].isdigit())


def _cut(text: str) -> int:
    """The place nearest the middle, of the gentlest kind there is."""
    middle = len(text) // 2
    for places in _CUTS:
        if cuts := [match.end() for match in places.finditer(text) if match.end() < len(text)]:
            return min(cuts, key=lambda place: abs(place - middle))
    return next((place for place in range(middle, 0, -1) if not _parts(text, place)), middle) or 1


def _parts(text: str, place: int) -> bool:
    """Whether a cut here would part an accent from its letter or an emoji from its parts."""
    return unicodedata.category(text[place]) in ("Mn", "Mc", "Me", "Cf") or text[place - 1] == "\u200d"
