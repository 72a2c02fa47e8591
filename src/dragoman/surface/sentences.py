"""Splitting of text by rules into pieces for a model, and joining of translated pieces. The pieces of a text, joined,
are the text again. In doubt, a sentence stays whole. Time is linear in the length of the text.
"""

import itertools
import re
import sys
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from dragoman.languages import SPACELESS
from dragoman.surface.segment import Context, Links, Restored, Segment, Step
from dragoman.surface.words import PICTURE_MODIFIERS, PICTURES, places_in_line, spaceless

# Text in brackets, which is not split; or a mark that may end a sentence, with the closing quotes and brackets, the
# tokens without letters, such as smileys, and the white space after it; or a full-width mark, which needs no space; or
# a line break. The lookbehind and the possessive `++` read every run once, so a megabyte of full stops takes no longer
# than other text.
_END = re.compile(
    r"""(?P<aside>[(\[](?<![:;=-].)(?=\S)[^()\[\]\n]{1,100}?(?=[.!?…]*+["'”’»]*+[)\]]))
      | (?<![.!?…؟۔।॥።])(?P<mark>[.!?…؟۔।॥።]++)
        (?P<closing>(?:[ \u00a0\u202f]?[»›]|["'”’)\]}])*+
            (?:[ \t\u00a0]++(?!(?:[-–—]++|[*•#«„“‘"'(\[¿¡])(?!\S))
                (?:(?:[^\w\s]|_)++|[:;=]['’-]?[DPpOo]|[xX]D|<3)(?!\S))*+)
        (?:\s++|\Z)
      | [。！？｡．]++ ["'”’」』）】〉》]*+ \s*+
      | [\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*+""",
    re.VERBOSE,
)
_SINGLE = re.compile(r"[^.!?…؟۔।॥。！？｡．(\[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]++[.!?]?")  # nothing in it may end it
_OPENING = re.compile(r"[\"'“‘„‚«‹(\[{¿¡\-–—*• ]*+")
_NO_BEGINNING = tuple("/.,;:=+%")

# Abbreviations of many languages that seldom end a sentence, without spaces and their last full stop. What is also a
# word that may end one (ill., red., Phil.) is left out, and those of single letters (z.B., p.m.) need no list.
_ABBREVIATIONS = frozenset(
    """
    mr mrs ms messrs dr prof st rev hon gen col capt Maj Brig lt cmdr adm sgt cpl pvt supt gov sen rep pres jr mt ft
    v vs approx dept cf viz resp eds hr fr frl dipl ing bzw ca vgl evtl ggf inkl exkl zzgl str bd bspw sog geb gest
    einschl betr Fa Fam Hrsg Mio Mrd Tsd dipl.-ing engl v.chr n.chr mme MM mlle mgr av env ste p.ex c.-à-d sig sigg
    sig.ra sig.na sig.ri dott dott.ssa prof.ssa avv arch geom egr gent spett ad.es p.es cfr sr sra sres srta Dra dña
    vd vds ud uds p.ej ej lic arq avda ee profa exmo exma dhr mevr drs bijv np tj tzn tzw zob ang niem łac św ks płk
    kpt mjr inż m.in woj przyp tłum ul např tzv příp popř cca srov angl judr phdr mudr sv pl ld vö ún özv
    ifj см ср напр проф акад доц тов ул англ див вул t.ex bl.a f.eks dvs esim npr örn bkz doç δηλ βλ pvz
    """.split()
)
_BEFORE_NUMBERS = frozenset(
    """
    no nos n nn nr num núm nro p pg pp ppg pag pagg pág págs s blz σελ стр с art artt ст abs § kap cap capp chap ch гл
    sec sez vol fig figs abb rys obr рис tab tel ok godz hod kl ust poz pkt č čj tř op rev jan feb febr mar apr jun jul
    aug sep sept oct okt nov dec dez janv févr avr juil déc ene abr ago dic genn febbr lug ott
    """.split()
)
_ENDING = ("т.д", "т.п")  # of single letters, and yet the last words of a sentence
_BEFORE_ORDINAL = re.compile(
    r"\b(?:der|die|das|des|dem|den|am|im|vom|zum|zur|beim|eine?[mnrs]?|jede[mnrs]?|seine?[mnrs]?|ihre?[mnrs]?|az)\s$",
    re.IGNORECASE,
)
_ORDINAL = re.compile(
    r"(?:januar|jänner|februar|märz|april|mai|juni|juli|august|september|oktober|november|dezember|jahrhundert|klasse|"
    r"stock|geburtstag|auflage|etage|weltkrieg|(?:bundes)?liga|fc|dünya)\b|(?:jan|feb|apr|jun|jul|aug|sept?|okt|nov|dez)\.",
    re.IGNORECASE,
)
# The last word of a text, and what may belong to it: `z. B`, `Dr. med`.
_LAST = re.compile(r"""(?:(?<!\w)[^\W\d_]{1,3}\.\s)*(?P<word>[^\s"'“”‘’„«»()\[\]{}¿¡/]*)$""", re.IGNORECASE)
_FOR_EXAMPLE = re.compile(r"\b(?:p[aeo]r|ad)\s+e[sxj]$", re.IGNORECASE)
_LETTERS = re.compile(r"(?:[^\W\d_]\.-?)*[^\W\d_]")
_SHORT = re.compile(r"[^\W\d_]{1,3}\.")
_LIST_MARK = re.compile(r"[^\W\d_]|[ivx]{2,5}|[IVX]{2,5}")
_AFTER_ABBREVIATION = re.compile(r"\d|[IVXLC]{2,}\b")  # not the one letter of I
_SPACES = re.compile(r"\s*+")
_WORD = re.compile(r"[^\W_]")
_LONGEST_ABBREVIATION = 20
_LONGEST_ORDINAL = 40  # characters after a full stop that are searched for signs of an ordinal number
_LONGEST_CHARACTER = 64  # accents on one letter, or parts of one emoji


LONGEST_WORD = 100
"""Most characters of a word, in scripts that put spaces between words.

In 25 million characters of English, Italian, German and French text no word has more than 80; a longer run is an
address, a key or an encoded file.
"""
_LONGER_WORD = re.compile(rf"(?<![^\s{SPACELESS}])[^\s{SPACELESS}]{{{LONGEST_WORD + 1},}}+")

# Signs without words: pictures with their modifiers and joiners, or a smiley.
_PICTURE = rf"[{PICTURES}][{PICTURES}{PICTURE_MODIFIERS}]*+"
_SMILEY = (
    r"(?:[:;=]['’^o-]?[()\[\]<>DPpOoSs3*|/\\]+|[()\[\]<>D]['’-]?[:;=]|[xX]D+|<3+"
    r"|\(?(?:[\^>-][_.o]+[\^<-]|[TtOoUu]_+[TtOoUu])\)?)" + rf"(?![^\s{PICTURES}])"
)
_SIGN = re.compile(f"{_PICTURE}|{_SMILEY}")
_PLAIN = re.compile(r"[^\W\dDPpOoSsXx_]{2}")  # two letters that no smiley has in a row
_SIGNS_BEFORE = re.compile(rf"(?:{_PICTURE}|{_SMILEY}|\s++)*+")
_TOKEN = re.compile(rf"{_PICTURE}|[^\s{PICTURES}]+")
_LONE_MARKS = re.compile(r"(?!\.+\Z)[^\w\"'“”‘’»›)\]}」』]+|_+")
_MARKED_END = re.compile(r"[.!?…؟。！？][\"'”’»›)\]}]*\Z")

BRANCHES = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,")
"""The beginning of the branches of a message of ICU, which other texts never hold."""
_CELLS = re.compile(r"[^\t]*\t+|[^\t]+")
_CONTROLS = re.compile(r"[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")  # those that are no space, which may end a sentence
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_CLOSING_DIRECTION = dict.fromkeys("\u202a\u202b\u202d\u202e", "\u202c") | dict.fromkeys("\u2066\u2067\u2068", "\u2069")

# NUL, and every character that some program takes for the end of a line.
_BREAKS = re.compile("[\0\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

# Letters, marks and a symbol that are blank: Hangul and Khmer fillers, variation selectors, the empty Braille pattern.
_FILLING = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)

# Where a sentence that is too long is cut: at the ends of the matches, those of the first expression first.
_CUTS = (
    re.compile(r"[,;:—–]\s++|[，；：、،؛]|(?<![.!?…])[.!?…]++[\"'”’»)\]]*+\s++|(?<!\s)\s++[—–-]\s++"),
    re.compile(r"\s++"),
)


def split_sentences(text: str, abbreviations: Collection[str] = ()) -> list[str]:
    """Split a text into sentences, each with the white space after it. None ends with one of these abbreviations.

    >>> split_sentences("Dr. Rossi paid 3.50 euros. “Why?” No one asked.")
    ['Dr. Rossi paid 3.50 euros. ', '“Why?” ', 'No one asked.']
    """
    if _SINGLE.fullmatch(text):
        return [text]
    added = {word.rstrip(".").lower() for word in " ".join(abbreviations).split()}
    pieces, begin = [], 0
    for end in _ends(text, _ABBREVIATIONS | added if added else _ABBREVIATIONS):
        pieces.append(text[begin:end])
        begin = end
    return [*pieces, text[begin:]] if begin < len(text) else pieces


def part_long_words(text: str) -> list[tuple[str, bool]]:
    """Split a text into pieces, with True for words of more than `LONGEST_WORD` characters, which no vocabulary has.

    >>> part_long_words("See " + "x" * 101 + " there.") == [("See ", False), ("x" * 101, True), (" there.", False)]
    True
    """
    pieces, begin = [], 0
    for match in _LONGER_WORD.finditer(text):
        pieces += [(text[begin : match.start()], False), (match[0], True)]
        begin = match.end()
    return [piece for piece in [*pieces, (text[begin:], False)] if piece[0]]


def has_words(text: str) -> bool:
    """Return True if a text has a letter that is not part of a smiley.

    >>> has_words("7 cats"), has_words("7:30 😀 :D")
    (True, False)
    """
    if _PLAIN.search(text):
        return True
    return any(any(map(str.isalpha, word)) and not _SIGNS_BEFORE.fullmatch(word) for word in text.split())


def part_copies(text: str) -> list[tuple[str, bool]]:
    """Split a sentence into pieces, with True for those to copy: words of more than `LONGEST_WORD` characters, pictures
    and smileys before or after the others, separate marks after its end, and pieces without words.

    >>> part_copies("🎉 We won!😀 :)"), part_copies("100 %")
    ([('🎉 ', True), ('We won!', False), ('😀 :)', True)], [('100 %', True)])
    """
    pieces: list[tuple[str, bool]] = []
    for piece, is_long_word in part_long_words(text):
        if is_long_word or not has_words(piece):
            pieces.append((piece, True))
        else:
            begin, end = _without_signs(piece)
            pieces += [(piece[:begin], True), (piece[begin:end], False), (piece[end:], True)]
    return [piece for piece in pieces if piece[0]]


def split_to_fit(text: str, fits: Callable[[str], bool], at_most: int = sys.maxsize) -> list[str]:
    """Split a text into pieces that fit: cut it near the middle, at a mark, else at a space, else between characters,
    and cut the halves in the same way.

    `fits` is called only with pieces of at most `at_most` characters; longer ones do not fit. A single character is
    never cut.

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


def join(pieces: Iterable[str], spaces: Iterable[str] = itertools.repeat("")) -> str:
    """Join translated pieces, with the white space that was before each in the source.

    >>> join(["Hello.", "", "Bye.", "Hm."], ["", " ", " ", "\u00a0 "])
    'Hello. Bye.\xa0 Hm.'
    """
    parts, last = [], ""
    for piece, space in zip(pieces, spaces, strict=False):
        if piece:
            parts += [separator(last, piece, space), piece]
            last = piece
    return "".join(parts)


def one_line(text: str) -> tuple[str, int]:
    """Return a text as one line, and the number of characters that this replaced by spaces."""
    text, count = (text, 0) if text.isprintable() else _BREAKS.subn(" ", text)
    return text.strip(), count


def without_controls(text: str) -> str:
    r"""Return a text with a space for each control character, and without the marks of another direction in it, of
    which a translation would lose some. Pairs of marks around all of it stay.

    >>> without_controls("\u2067One\0two \u202athree\u202c.\u2069")
    '\u2067One two three.\u2069'
    """
    if text.isprintable():
        return text
    begin, end = 0, len(text)
    while end - begin > 1 and _CLOSING_DIRECTION.get(text[begin]) == text[end - 1]:
        begin, end = begin + 1, end - 1
    return text[:begin] + _DIRECTIONS.sub("", _CONTROLS.sub(" ", text[begin:end])) + text[end:]


def is_blank(text: str) -> bool:
    """Return True if nothing of a text is visible: only white space, and control, format and filling characters."""
    return all(
        unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cc", "Cf") or character in _FILLING for character in text
    )


def separator(before: str, after: str, space: str = "") -> str:
    """Return the separator of two translated pieces: the white space between their sources, if it is more than a space;
    else a space, or nothing next to a script without spaces. The first piece keeps the white space before it.

    >>> separator("Hello.", "Bye."), separator("你好。", "再见。", " "), separator("Hello.", "Bye.", "  ")
    (' ', '', '  ')
    """
    if not after:
        return ""
    if not before or space not in ("", " ") or _SIGN.match(before[-1]) or _SIGN.match(after[0]):
        return space
    return "" if spaceless(before[-1]) or spaceless(after[0]) else " "


def space_in_line(between: str) -> str:
    """Return the text between two pieces if it is white space without line breaks, else an empty text."""
    return between if not between.strip() and not _BREAKS.search(between) else ""


class Sentences(Step):
    """Step that splits a line into sentences and copies, and joins their translations with the spaces between them."""

    def apply(self, segment: Segment, context: Context) -> list[Segment]:
        """Return the parts of a line that are translated or copied separately, without the space around them."""
        text = segment.typed
        has_branches = context.rewrites and BRANCHES.search(text) is not None
        if context.split == "never" or has_branches or not has_words(text):
            parts = [(text, has_branches or not has_words(text))]
        else:
            cells = _CELLS.findall(text) if context.split == "sentence" else ()
            sentences = [some for cell in cells for some in split_sentences(cell, context.abbreviations)] or [text]
            parts = [part for sentence in sentences for part in part_copies(sentence)]
        stripped = ((part.strip(), is_copied) for part, is_copied in parts)
        return [Segment.from_typed(part, is_copied) for part, is_copied in stripped if part]

    def restore(self, segment: Segment, translations: Sequence[Restored]) -> Restored:
        """Return the translation of a line from those of its parts."""
        if len(segment.parts) == 1 and segment.parts[0].typed == segment.typed and not segment.prefix:
            return Restored(translations[0].text, translations[0].links)
        texts = [segment.prefix, *(part.text for part in translations)]
        lead, *spaces = spaces_around(segment)
        text = join(texts, [lead, "" if segment.prefix else lead, *spaces])
        return Restored(text + spaces[-1] if text else "", self._links(segment, texts, text, translations))

    def _links(
        self, segment: Segment, texts: Sequence[str], text: str, translations: Sequence[Restored]
    ) -> Links | None:
        """Return the links of a line, counting words over all parts; None if the links of a part are unknown."""
        if any(part.links is None for part in translations):
            return None
        sources = places_in_line(segment.typed, [part.typed for part in segment.parts])
        _, *targets = places_in_line(text, texts)
        rows = zip(sources, targets, translations, strict=True)
        return frozenset(
            (source[word], target[translated]) for source, target, part in rows for word, translated in part.links or ()
        )


def spaces_around(line: Segment) -> list[str]:
    """Return the white space before each part of a line, and that after the last."""
    spaces, end = [], 0
    for part in line.parts:
        begin = line.typed.index(part.typed, end)
        spaces.append(space_in_line(line.typed[end:begin]))
        end = begin + len(part.typed)
    return [*spaces, space_in_line(line.typed[end:])]


def _without_signs(text: str) -> tuple[int, int]:
    """Return the beginning and end of the sentence in a text with words, without the signs before and after it."""
    signs = None if _PLAIN.match(text) else _SIGNS_BEFORE.match(text)
    begin, last = signs.end() if signs else 0, text.rsplit(None, 1)[-1]
    if last[-1] < PICTURES[0] and _PLAIN.search(last):
        return begin, len(text)
    tokens = [*_TOKEN.finditer(text, begin)]
    while _SIGN.fullmatch(tokens[-1][0]) or (
        len(tokens) > 1 and _LONE_MARKS.fullmatch(tokens[-1][0]) and _MARKED_END.search(tokens[-2][0])
    ):
        tokens.pop()
    return begin, tokens[-1].end()


def _ends(text: str, abbreviations: frozenset[str]) -> Iterator[int]:
    """Yield the ends of sentences, after their white space."""
    begin, word = _after_space(text, 0), -1  # beginning of a sentence, and its first letter or digit
    for match in _END.finditer(text):
        if word < begin:
            first = _WORD.search(text, begin)
            word = first.start() if first else len(text)
        if match["aside"]:
            continue
        if match["mark"] and (match.start() < word or not _is_end(text, begin, match, abbreviations)):
            continue
        if match.end() > begin:
            yield match.end()
            begin = _after_space(text, match.end())


def _after_space(text: str, place: int) -> int:
    """Return the end of the white space at this place."""
    spaces = _SPACES.match(text, place)
    return spaces.end() if spaces else place


def _is_end(text: str, begin: int, match: re.Match[str], abbreviations: frozenset[str]) -> bool:
    """Return True if a mark followed by white space ends the sentence that begins at `begin`."""
    opening = _OPENING.match(text, match.end())
    place = opening.end() if opening else match.end()
    after = text[place : place + _LONGEST_ORDINAL]
    if after[:1].islower() or after.startswith(_NO_BEGINNING):
        return False
    before = text[max(begin, match.start() - _LONGEST_ABBREVIATION) : match.start()]
    last = _LAST.search(before)
    if match["mark"] != "." or match["closing"] or not last:
        return True
    word = last["word"]
    listed = not _WORD.search(text, begin, match.start() - len(word))
    if listed and _LIST_MARK.fullmatch(word):
        return False
    if word.isdigit():
        ordinal = _BEFORE_ORDINAL.search(before[: -len(word)]) or _ORDINAL.match(after)
        return not (listed or (len(word) <= 2 and ordinal))
    if word.lower() in _BEFORE_NUMBERS and _AFTER_ABBREVIATION.match(after):
        return False
    return not _is_abbreviation(word, "".join(last[0].split()).lower(), before, after, abbreviations)


def _is_abbreviation(word: str, whole: str, before: str, after: str, abbreviations: frozenset[str]) -> bool:
    """Return True if a full stop belongs to the word before it, or to the `whole` abbreviation that the word ends."""
    if whole in _ENDING:
        return False
    if _LETTERS.fullmatch(word) and (len(whole) > 1 or word.isupper() or _SHORT.match(after)):
        return True  # an initial, U.S., z. B., and its z.
    if whole == "г":
        return not before[:-1].rstrip()[-1:].isdigit()  # a town, not a year
    if whole.startswith("dr.") and word.islower():
        return True  # Dr. med.
    return bool(_FOR_EXAMPLE.search(before)) or not abbreviations.isdisjoint((word, word.lower(), whole))


def _cut(text: str, begin: int, end: int, kinds: Sequence[Sequence[int]]) -> int:
    """Return the place to cut between `begin` and `end`: the one nearest the middle, of the first kind that occurs."""
    middle = (begin + end) // 2
    for places in kinds:
        after = bisect_left(places, middle)
        near = [place for place in places[max(0, after - 1) : after + 1] if begin < place < end]
        if near:
            return min(near, key=lambda place: abs(place - middle))
    back = range(middle, max(begin, middle - _LONGEST_CHARACTER), -1)
    return next((place for place in back if not _is_in_character(text, place)), middle)


def _is_in_character(text: str, place: int) -> bool:
    """Return True if a place is between a letter and its accent, or inside an emoji."""
    return unicodedata.category(text[place]) in ("Mn", "Mc", "Me", "Cf") or text[place - 1] == "\u200d"
