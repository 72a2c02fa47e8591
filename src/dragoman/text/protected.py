"""What a translation should hold as its source does: names that the training text does not have, numbers, addresses,
variables and other code. Finds it in a text, and puts placeholders in its place.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from dragoman.text.casing import Truecaser
from dragoman.text.placeholders import ANY_PLACEHOLDER, NUMBERS, WORDS

Kind = Literal["name", "number", "code", "term"]

# The ending of a word: no mark behind an address belongs to it.
_END = r"(?<![.,;:!?'’)\]}])"
_ADDRESS = rf"[^\s<>\"“”«»]+{_END}"
_DOMAINS = "com|edu|gov|info|int|io|net|org"
_FILES = (
    "conf|csv|docx?|exe|gif|html?|ini|jpe?g|json|log|md|mp[34]|ods|odt|pdf|png|pptx?|py|sh|svg|tar|toml|txt|xlsx?|xml|"
    "ya?ml|zip"
)
# Each repeats at most so many characters before it must fit, so that a hostile line takes no longer than any other.
_CODE = re.compile(
    "|".join(
        (
            ANY_PLACEHOLDER,
            rf"(?:https?|ftp|file|mailto):{_ADDRESS}",
            rf"www\.{_ADDRESS}",
            r"(?<![\w.@-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+",  # an e-mail address
            rf"(?<![\w.-])(?:[a-z0-9-]{{1,64}}\.){{1,8}}(?:{_DOMAINS})\b(?:/{_ADDRESS})?",
            r"</?[A-Za-z][^<>]{0,500}>",  # markup
            r"&(?:[A-Za-z]{2,10}|#\d{1,7}|#x[0-9A-Fa-f]{1,6});",
            r"`[^`\n]{1,200}`|\*\*",
            r"\{\{[^{}\n]{0,100}\}\}|[$%#@]?\{[^\s{}][^{}\n]{0,100}\}|\{\}",  # variables
            r"%\(\w{1,60}\)[-+#0]?\d{0,3}(?:\.\d{1,2})?[diouxXeEfFgGcrs]|\$\(\w{1,60}\)",
            r"(?<![\w%])(?:%(?:\d{1,2}\$)?[-+#0]?\d{0,3}(?:\.\d{1,2})?(?:hh|ll|[hlLqjzt])?[diouxXeEfFgGcrsSp@])+(?!\w)",
            r"(?<![\w%])%\d{1,2}(?!\w)|%[A-Za-z_]\w{1,60}%|%[A-Z]{3}[A-Z_]{0,60}|%%|(?<!\w)\$[A-Za-z_]\w{1,60}",
            r"(?<![^\s(\[])--[A-Za-z][\w-]{1,60}(?:=\S+)?(?<=[\w-])(?=[\s,.;:)]|\Z)",  # an option of a command
            r"(?<![\w/])(?:~|\.{1,2})?/(?:[\w.+-]{1,100}/){1,50}[\w.+-]{0,100}(?<!\.)",  # paths
            r"(?<![\w/.])(?:~|\.{1,2})/[\w.+-]{1,100}(?<!\.)",
            rf"(?<!\w)[A-Za-z]:\\{_ADDRESS}",
            rf"(?<![\w.-])(?:[\w.-]{{1,100}}/){{0,9}}[\w-]{{1,100}}\.(?:{_FILES})(?!\w)",
            r"(?<![\w&/])[@#][A-Za-z_]\w{1,60}",
            r"(?<!\w)(?:[A-Za-z]\w{0,60}_|__)\w{1,60}|(?<!\w)[A-Za-z_]\w{0,60}\(\)",  # names of a program
            # telephone numbers
            r"(?<![\w:.,/])(?:\+\d{1,3}|\(\d{2,5}\)|0\d{2,5})(?:[ /-]{1,3}\d{2,8}){1,5}(?!\w)",
            r"(?<![\w:.,/-])\d{1,4}(?:[ -]\d{2,4}){2,5}(?!\w)(?<![ -]\d\d)",
        )
    )
)
_ORDINAL = r"(?:st|nd|rd|th|s|[ºª])(?!\w)"  # of 21st, 1990s: not a part of what is kept
_UNIT = rf"(?!{_ORDINAL})°?[^\W\d_]{{1,3}}(?!\w)"  # of 5km, 25°C, 3D
_NUMBER = re.compile(rf"(?<![\w.,:/])\d++(?:[.,:/'’\u00a0\u202f–-]\d+)*+(?:{_UNIT}|(?={_ORDINAL})|(?!\w))")
_WORD = re.compile(r"(?<!\w)[^\W\d_](?:[^\W_]|[\u0300-\u036f])*(?:['’-][^\W\d_](?:[^\W_]|[\u0300-\u036f])*)*(?!\w)")
_POSSESSIVE = re.compile(r"['’](?:s|S)?$")
_VERSION = re.compile(r" \d+(?:\.\d+)+(?![\w%])")  # no decimal comma comes into LibreOffice 7.3
_BEGINNING = re.compile(r"(?:\A\W*|[.!?…:]\W+|[\"“”„«»(])\Z")  # of a sentence
_CAPITALS_FOR_NOUNS = ("de", "lb")
_DECIMAL_POINT = frozenset(
    "am bn bo cy en fil ga gd gu ha he hi ig ja kn ko ml mn mr ms mt my ne pa sa si so sw ta te th tl ug ur yo zh"
    " zu".split()
)
_SPACE_BETWEEN_THOUSANDS = frozenset(
    "be bg cs eo et fi fr hu hy ka kk ky lt lv nb nn no pl ru sk sq sv tk uk uz".split()
)
_NO_MARK = re.compile(r"[^\W_]")


class Span(NamedTuple):
    """A part of a text, from `begin` to `end`."""

    begin: int
    end: int
    kind: Kind

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Those that may stand for it."""
        return NUMBERS if self.kind == "number" else WORDS


# A text without any of these has no code.
_HINT = re.compile(rf"[%&@#$<{{/\\_`~]|{ANY_PLACEHOLDER}|--|\*\*|\(\)|:\S|\.[a-z]|[\d)][ -]\(?\d")


def code_in(text: str) -> list[Span]:
    """Addresses, variables, markup and the like.

    >>> [text[begin:end] for text in ["Hi {name}, see https://a.org/b."] for begin, end, _ in code_in(text)]
    ['{name}', 'https://a.org/b']
    """
    return [Span(*match.span(), "code") for match in _CODE.finditer(text)] if _HINT.search(text) else []


def numbers_in(text: str) -> list[Span]:
    """Numbers with their marks, and with a unit that is typed without a space. A lone 1 is none, because languages
    write it as a word.

    >>> text = "1 of 20, at 7:30 (3.5 %), the 42nd, 2.5km"
    >>> [text[begin:end] for begin, end, _ in numbers_in(text)]
    ['20', '7:30', '3.5', '42', '2.5km']
    """
    return [Span(*match.span(), "number") for match in _NUMBER.finditer(text) if match[0] != "1"]


class Names:
    """Finds the names in texts of one language."""

    def __init__(self, words: Truecaser, language: str) -> None:
        """Given the words that the training text has, without rare names."""
        self._words = words
        self._has_capitals_for_nouns = language.partition("-")[0] in _CAPITALS_FOR_NOUNS

    def unknown(self, text: str) -> list[Span]:
        """Names that the training text does not have. Those side by side are one.

        >>> names = Names(Truecaser(["met", "in", "Tom"], "en"), "en")
        >>> [text[begin:end] for text in ["Tom met Jean-Luc Nakamura."] for begin, end, _ in names.unknown(text)]
        ['Jean-Luc Nakamura']
        """
        return self._find(text, lambda word: self._words.usual(word) is None)

    def all(self, text: str) -> list[Span]:
        """The same, with those that the training text has."""
        return self._find(text, lambda word: not self._words.is_small(word))

    def _find(self, text: str, is_name: Callable[[str], bool]) -> list[Span]:
        large = [match for match in _WORD.finditer(text) if match[0] != match[0].lower()]
        if self._has_capitals_for_nouns or text.isupper() or (len(large) > 1 and self._is_title(text)):
            return []
        found: list[Span] = []
        for match in large:
            begin, end = match.start(), match.end() - _ending(match[0])
            if not self._may_be_name(text, begin, end) or not is_name(text[begin:end]):
                continue
            if found and text[found[-1].end : begin] == " ":
                begin = found.pop().begin
            version = _VERSION.match(text, end)
            found.append(Span(begin, version.end() if version else end, "name"))
        return found

    def _may_be_name(self, text: str, begin: int, end: int) -> bool:
        word = text[begin:end]
        longest = max(re.split("['’-]", word), key=len)
        if len(longest) < 2 or self._words.is_small(longest):
            return False
        is_first = word[1:].islower() and _BEGINNING.search(text, 0, begin) is not None
        return not (is_first and self._words.usual(word) is None and self._is_like_a_word(word.lower()))

    def _is_like_a_word(self, word: str) -> bool:
        """Whether this may be another form of a word of the training text: that word and up to three letters more, or
        one that begins with the same five letters or more and ends in up to three others.
        """
        if any(self._words.is_small(word[:end]) for end in range(max(4, len(word) - 3), len(word))):
            return True
        beginning = word[: max(5, len(word) - 3)]
        return self._words.has_beginning(beginning, len(beginning) + 3)

    def _is_title(self, text: str) -> bool:
        small = [match[0] for match in _WORD.finditer(text) if self._words.is_small(match[0])]
        return 2 * sum(word[0].isupper() for word in small[1:]) > len(small)


def localised(number: str, source: str, target: str) -> str:
    """A number of one language as another writes it: its decimal mark, and what stands between its thousands.

    >>> localised("1,234.50", "en", "it"), localised("1.234,50", "it", "en"), localised("1,000", "en", "fr")
    ('1.234,50', '1,234.50', '1\u202f000')
    >>> [localised(number, "en", "it") for number in ("7:30", "1.2.3", "1,5,7", "2026", "2.5km")]
    ['7:30', '1.2.3', '1,5,7', '2026', '2,5km']
    """
    (thousands, decimal), (other_thousands, other_decimal) = _marks(source), _marks(target)
    spaces = " \u00a0\u202f.'’" if thousands != "," else ","
    found = re.fullmatch(rf"(\d{{1,3}}(?:[{spaces}]\d{{3}})+|\d+)(?:{re.escape(decimal)}(\d+))?(\D*)", number)
    if found is None or (thousands, decimal) == (other_thousands, other_decimal):
        return number
    whole = re.sub(rf"[{spaces}]", other_thousands, found[1])
    return whole + ("" if found[2] is None else other_decimal + found[2]) + found[3]


def _marks(language: str) -> tuple[str, str]:
    """What a language writes between thousands, and before decimals (CLDR)."""
    base = language.partition("-")[0]
    if base in _DECIMAL_POINT:
        return ",", "."
    return ("\u202f" if base in _SPACE_BETWEEN_THOUSANDS else "."), ","


def alike(source: str, target: str, names: Names) -> list[tuple[Span, Span]]:
    """Spans that stand once on each side of a sentence pair, and are the same; numbers in other marks are.

    >>> names = Names(Truecaser(["paid", "pagò"], "en"), "en")
    >>> [(one.begin, other.begin) for one, other in alike("Tom paid 3.50.", "Pagò Tom 3,50.", names)]
    [(0, 5), (9, 9)]
    """
    found: list[tuple[Span, Span]] = []
    for span in apart(source, code_in(source), names.all(source)):
        text = source[span.begin : span.end]
        places = [match.start() for match in re.finditer(rf"(?<!\w){re.escape(text)}(?!\w)", target)]
        if len(places) == 1 and source.count(text) == 1:
            found.append((span, Span(places[0], places[0] + len(text), span.kind)))
    sides = [
        Counter(_without_marks(side[begin:end]) for begin, end, _ in numbers_in(side)) for side in (source, target)
    ]
    others = {_without_marks(target[span.begin : span.end]): span for span in numbers_in(target)}
    for span in numbers_in(source):
        number = _without_marks(source[span.begin : span.end])
        if all(side[number] == 1 for side in sides):
            found.append((span, others[number]))
    kept = apart(target, *([other] for _, other in found))
    inside = apart(source, *([one] for one, other in found if other in kept))
    return sorted((one, other) for one, other in found if other in kept and one in inside)


def apart(text: str, *kinds: Iterable[Span]) -> list[Span]:
    """Spans in order, without those that overlap one of an earlier kind."""
    taken = bytearray(len(text))
    kept = []
    for span in chain.from_iterable(kinds):
        if not any(taken[span.begin : span.end]):
            taken[span.begin : span.end] = b"x" * (span.end - span.begin)
            kept.append(span)
    return sorted(kept)


def replaced(text: str, spans: Sequence[Span], others: Sequence[str]) -> str:
    """The text with another one in the place of each span.

    >>> replaced("Dear Ann,", [Span(5, 8, "name")], ["{name}"])
    'Dear {name},'
    """
    parts, end = [], 0
    for span, other in zip(spans, others, strict=True):
        parts += [text[end : span.begin], other]
        end = span.end
    return "".join([*parts, text[end:]])


def _without_marks(number: str) -> str:
    return "".join(_NO_MARK.findall(number))


def _ending(word: str) -> int:
    """How many letters of a word are the ending of a possessor."""
    return len(found[0]) if (found := _POSSESSIVE.search(word)) else 0
