"""Spans of a text that its translation should keep: names that the training text lacks, numbers, addresses, variables
and other code.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from dragoman.errors import DecodeError
from dragoman.surface.letters import Truecaser
from dragoman.surface.placeholders import ANY_PLACEHOLDER, NUMBERS, PLACEHOLDERS, WORDS
from dragoman.surface.words import PICTURE_MODIFIERS, PICTURES

Kind = Literal["name", "number", "code", "term"]

# End of a word: marks after an address are no part of it.
_END = r"(?<![.,;:!?'’)\]}])"
_ADDRESS = rf"[^\s<>\"“”«»]+{_END}"
_DOMAINS = "com|edu|gov|info|int|io|net|org"
_FILES = (
    "conf|csv|docx?|exe|gif|html?|ini|jpe?g|json|log|md|mp[34]|ods|odt|pdf|png|pptx?|py|sh|svg|tar|toml|txt|xlsx?|xml|"
    "ya?ml|zip"
)
PRINTF = r"%(?:\d{1,2}\$)?[-+#0 ']{0,3}(?:\d{1,3}|\*)?(?:\.(?:\d{1,2}|\*))?(?:hh|ll|[hlLqjzt])?[diouxXeEfFgGcrsSp@%]"
"""A conversion of `printf`, for `protect` if a text is known to have some (`c-format`): it also matches in "5 % of"."""
_MODIFIERS = "Ctrl|Control|Alt|AltGr|Shift|Cmd|Command|Meta|Super|Win|Fn|Strg|Umschalt|Maj|Maiusc|Mayús"
# All repetitions are bounded, so a hostile line takes no longer than any other. Only an address begins inside a word.
_WEB, _ICU = rf"www\.{_ADDRESS}", r"'(?:\{[^{}\n']{0,100}\}|[{}|#])'"  # braces that ICU shows as they are
_NUMERIC = (
    # versions with a stage, numbers with an exponent, mixed fractions, products
    r"(?<![\w.])v?\d{1,5}(?:\.\d{1,5}){1,3}-[a-z]{1,10}\.?\d{1,5}(?![\w.]*\w)",
    r"(?<![\w.,])\d[\d.]{0,10}[eE][-+]?\d{1,3}(?!\w)|(?<![\w.,/])\d{1,3} \d{1,2}/\d{1,2}(?![\w/])",
    r"(?<![\w.,])\d{1,9}(?: [kcm]?m)?(?: [*×÷] \d{1,9}(?: [kcm]?m)?){1,9}(?!\w)",
    r"(?<![\w.,])\d{1,4}x\d{1,9}(?: [mk]?[gl])(?!\w)|(?<!\w)[A-Z](?:\.\d{1,3}){1,4}(?![\w.]*\w)",
    r"(?<![\w.,])\d{1,3}°(?: ?\d{1,2}['′’](?: ?\d{1,2}(?:\.\d{1,9})?[\"″”])?)? ?[NSEWO](?!\w)",
)
_TELEPHONES = (
    r"(?<![\w:.,/])(?:\+\d{1,3}|\(\d{2,5}\)|0\d{2,5})(?:[ /-]{1,3}\d{2,8}){1,5}(?!\w)",
    r"(?<![\w:.,/-])\d{1,4}(?:[ -]\d{2,4}){2,5}(?!\w)(?<![ -]\d\d)",
)
_ALTERNATIVES = "(?:(?<!\\w)|(?=\\W)|(?=[fhmw])(?=(?:https?|ftp|file|mailto):|www\\.))(?:%s)"
_SCRIPT = (
    r"(?s:<(?:script|style)\b[^<>]{0,500}>[^<>(){}=;]{0,500}[(){}=;](?:(?!<script|<style).){0,5000}?"
    r"</(?:script|style)>)"
)
"""Scripts and styles in a text, which a model would read as words. Without signs of code, they may be words."""
_CODE = re.compile(
    _ALTERNATIVES
    % "|".join(
        (
            ANY_PLACEHOLDER,
            rf"(?:https?|ftp|file|mailto):{_ADDRESS}",
            _WEB,
            r"(?<![\w.@-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+",  # an e-mail address
            rf"(?<![\w.-])(?:[a-z0-9-]{{1,64}}\.){{1,8}}(?:{_DOMAINS})\b(?:/{_ADDRESS})?",
            _SCRIPT,
            r"<<[A-Za-z][^<>]{0,500}>>|</?[A-Za-z@#:!?%][^<>]{0,500}>",  # markup
            r"&lt;/?[A-Za-z][^&<>]{0,200}&gt;|&(?:[A-Za-z]{2,10}|#\d{1,7}|#x[0-9A-Fa-f]{1,6});",
            r"`[^`\n]{1,200}`|\*\*|\*\|[A-Z][\w:]{0,60}\|\*|\[%[^%\n]{1,100}%\]",
            _ICU,
            # variables, also of a percentage
            r"(?:\{{2,3}[^{}\n]{0,100}\}{2,3}|[$%#@]?\{(?>[^{}\n]{1,100}|\{[^{}\n]{0,100}\}){0,20}\})(?:%(?!\w))?",
            r"%(?:\(\w{1,60}\)|<\w{1,60}>)[-+#0]?\d{0,3}(?:\.\d{1,2})?[diouxXeEfFgGcrs]|\$(?:t\([^()]{1,200}\)|(?:[A-Za-z]\w{0,60})?\([^()\s]{1,100}\))",
            rf"%(?:\d{{1,2}}\$)?#@\w{{1,60}}@|(?<![\w%])(?:(?!%[-+#0']*[ %]){PRINTF})+(?:%%)?(?!\w)",
            r"(?<![\w%])(?<!\d )%[-_0^#]?[ABDFHIMRTYZabjmpwyz](?!\w)",  # a part of a date, as of strftime
            r"(?<![\w%])%\d{1,2}(?!\w)|%[A-Za-z_]\w{1,60}%|%[A-Z]{3}[A-Z_]{0,60}|%%|(?<!\w)\$\w{0,60}\$|(?<!\w)\$[A-Za-z_]\w{1,60}(?:/[\w.+-]{1,60}){0,9}(?<!\.)",
            r"(?<![\w%])(?<!\d )%[A-Za-z_]\w{1,60}",
            r"(?<![\w:]):[\w+-]{1,40}:(?![\w:])|(?<![^\s\"'“‘«(\[{=>]):(?:[a-z_]\w{1,60}|[A-Z]\w{2,60})(?![\w:])",
            r"@(?:\.[a-z]{1,20})?:(?:\([\w.-]{1,100}\)|\{'[^'{}]{1,100}'\}|\w[\w.-]{0,100}(?<=\w))",  # a linked message
            r"\[\[[^\[\]\n]{1,100}\]\]|\[/\w{1,60}\]|(?<!\w)\[(?![xX]\]|[A-Z]\][a-z])[^\W\d][^\s\[\]]{0,100}\](?!\(|:\s)",
            rf"(?<!\w)(?:{_MODIFIERS})(?: ?\+ ?(?:\w{{1,12}}|[^\w\s.,;:!?)])|-[A-Z](?!\w)){{1,4}}",
            r"\\[A-Za-z]{2,30}(?=[{\\^_])|\\[nrt]",  # commands of TeX, and line breaks
            r"(?<![^\s(\[])--[A-Za-z][\w-]{1,60}(?:=\S+)?(?<=[\w-])(?=[\s,.;:)]|\Z)"  # an option of a command
            r"|(?<=\s)-[b-df-hj-np-z](?=[\s,.;:)]|\Z)",
            r"(?<![\w/])(?:~|\.{1,2})?/(?:[\w.+-]{1,100}/){1,50}[\w.+-]{0,100}(?<!\.)",  # paths
            r"(?<![\w/.])(?:~|\.{1,2})/[\w.+-]{1,100}(?<!\.)|(?<![\w/])/\d{1,3}(?!\w)",
            *_NUMERIC,
            rf"(?<!\w)(?:[A-Za-z]:|\\)\\{_ADDRESS}",
            rf"(?<![\w.-])(?:[\w.-]{{1,100}}/){{0,9}}[\w-]{{1,100}}\.(?:{_FILES})(?!\w)",
            r"(?<![\w&/])[@#][A-Za-z_]\w{1,60}(?:\.[A-Za-z_]\w{0,60}){0,5}",
            r"(?<!\w)(?:[A-Za-z]\w{0,60}_|__)\w{1,60}|(?<!\w)[A-Za-z_]\w{0,60}\(\)",  # names of a program
            *_TELEPHONES,
        )
    )
)
_CODE_WITHOUT_SIGNS = re.compile(_ALTERNATIVES % "|".join((_WEB, _ICU, *_NUMERIC, *_TELEPHONES)))
"""The code that a text may have whose only hints of code are digits."""
_GLUE = re.compile(r"[-@/.:_=#~]")
_ORDINAL = r"(?:st|nd|rd|th|s|[ºª])(?!\w)"  # of 21st, 1990s: no part of the number
_UNIT = rf"(?!{_ORDINAL})°?[^\W\d_]{{1,3}}(?!\w)"  # of 5km, 25°C, 3D
_DIGIT = re.compile(r"\d")
_DIGITS = r"(?<![\w.,:/])(?:\.(?=\d))?\d++(?:[.,:/'’\u00a0\u202f–-]\d+)*+"
_NUMBER = re.compile(rf"{_DIGITS}(?:{_UNIT}|(?={_ORDINAL})|(?!\w))")
_CURRENCY, _GAP = "[$¢£¥€₦₩₪₫₱₴₹₺₽]", "[ \u00a0\u202f]?"
_SECONDS = r"ms|(?<=[ \u00a0\u202f])s"  # not 1950s
_SYMBOL = rf"(?:km/h|[kcdmµ]?m|[km]?g|[cdm]?l|[kMGT]i?[Bb]|[kM]?Wh?|[kMG]?Hz|lbs?|oz|[km]?[VA]|[bm]n|{_SECONDS})(?!\w)"
"""Symbol of a unit."""
_QUANTITY = re.compile(
    rf"(?:(?<!\w)(?:[A-Z]{{0,3}}{_CURRENCY}|[#№§±≈~≤≥]){_GAP}|(?<![^\s(\[])[-−+])?{_DIGITS}"
    rf"(?:(?<=:\d\d){_GAP}(?i:[ap]\.m(?:\.(?!\Z))?|[ap]m(?!\w))|{_GAP}[^\W\d_]{{0,2}}(?:{_CURRENCY}|[%‰°′″²³Ω])[CFKX]?(?!\w)|{_GAP}{_SYMBOL}|{_UNIT}|(?={_ORDINAL})|(?!\w))"
)
_MEASURED = re.compile(
    rf"{_GAP}-?(?:{_SYMBOL}|(?:mph|min|euro|dollar|dólar|cent|pound|sterlin|pfund|livre|libra|fran[ck]|yen|hundred|mil|"
    r"thousand|mill?i(?:on|ard)|millon|per ?cent|prozent|pour ?cent|por c|degr|grad|met[er]|mètre|mile|meile|kilo\w*|"
    r"f[eo][eo]t|inch|yard|lit[er]|gram|ton|ounce|se[cgk]o?und|second|minut|hour|or[ae]|stunde|heure|hora|day|giorn|tag|"
    r"jour|día|week|settiman|woche|semain|month|mese|mesi|monat|mois|year|ann[io]|jahr|año|time|volt[ae]|mal|fois|vece|"
    r"point|pun[kt]t?)\w{0,3}(?!\w))"
)
"""Follows a number that counts or measures something. Beginnings of words in five languages."""
_PRODUCTS = (
    "Access Android Edge Excel Java Linux Node Opera PHP Python Ruby Rust Safari Swift Ubuntu Windows Word".split()
)
"""Names of programs, some of which are also words."""
_LABEL = re.compile(
    rf"(?<!\w)(?:(?:(?:{'|'.join(_PRODUCTS)}|version|release|revision|build|section|figure|chapter|page|rule|room|table|"
    r"step|article|clause|part|verse|psalm|paragraph|exercise|example|theorem|equation|appendix|item|line|level|number|kapitel|seite|"
    r"abbildung|regel|artikel|chapitre|règle|salle|tableau|numéro|sección|capítulo|página|regla|artículo|número)[ens]?s?|"
    r"(?:versi|sezion|figur|capitol|pagin|regol|stanz|camer|tabell|articol|numer|abschnitt|zimmer|nummer)\w{0,2}|see|"
    r"(?:sec|fig|ver|no|nr|pp?|ch|vol|art|abb)\.)(?: (?:number|is|are|was|(?:low|high|old|new|lat|earli)er|than)){0,3}|"
    r"(?:at|from|to|till|until|by|before|after|since)(?=.(?:[01]?\d|2[0-4])\.[0-5]\d(?!\d))) (?=\d)|"
    r"(?<![\w.])(?=\d\d?\.\d\d(?: ?[ap]\.?m\b|\.(?: (?-i:[^\W\dA-Z])|[,;)])))",
    re.IGNORECASE,
)
"""Precedes a number that names something: words in five languages, or the position of a time or a date."""
_ONE_POINT = re.compile(r"[#№§]?[ \u00a0]?(\d+\.\d+)")
_SEVERAL_POINTS = re.compile(r"(?<!\d)(?<!\d\.)\d{1,3}\.\d{1,3}\.\d{1,2}(?!\.?\d)")
_JOINT = re.compile(r" ?(?:[,/–-]|,? (?:and|or|to|ed?|od?|und|oder|bis|et|ou|à|y|u))? ?")
_HINT_OF_SIGN = re.compile(rf"[{PICTURES}\u20e3#*&@+=<>|~^§%°×÷$€£©®™/•·\\]")
_SIGN = re.compile(
    rf"(?<=\S )[/•·\\](?= \S)|(?:[{PICTURES}]|[\d#*]\ufe0f?\u20e3)[{PICTURES}{PICTURE_MODIFIERS}]*+"
    r"|(?<![^\s(\[])[#*&@+=<>~|^§%°×÷$€£]++(?![^\s)\],.;:!?])|(?<!\w)[A-Z]{1,4}&[A-Z]{1,4}(?!\w)|&"
    r"|(?<!\w)[A-Z]\w{0,30}(?:\+\+?|#|[©®™])(?!\w)"
)
_WORD = re.compile(r"(?<!\w)[^\W\d_](?:[^\W_]|[\u0300-\u036f])*(?:['’-][^\W\d_](?:[^\W_]|[\u0300-\u036f])*)*(?!\w)")
_JOINTS = re.compile("['’-]")
_POSSESSIVE = re.compile(r"['’](?:s|S)?$")
_VERSION = re.compile(rf"[ -]\d++(?:[.,]\d+)*+(?![\w:/-])(?!{_GAP}(?:{_CURRENCY}|[%°])|{_MEASURED.pattern})")
"""Follows a name and is a part of it: Windows 11, LibreOffice 7.3, Covid-19."""
_BEGINNING = re.compile(r"(?:\A\W*|[.!?…:]\W+|[\"“”„«»(])\Z")  # of a sentence
_CAPITALS_FOR_NOUNS = ("de", "lb")
_DECIMAL_POINT = frozenset(
    "am bn bo cy en fil ga gd gu ha he hi ig ja kn ko ml mn mr ms mt my ne pa sa si so sw ta te th tl ug ur yo zh"
    " zu".split()
)
_SPACE_BETWEEN_THOUSANDS = frozenset(
    "be bg cs eo et fi fr hu hy ka kk ky lt lv nb nn no pl ru sk sq sv tk uk uz".split()
)


class Span(NamedTuple):
    """A part of a text, from `begin` to `end`."""

    begin: int
    end: int
    kind: Kind

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The placeholders that may replace it."""
        return NUMBERS if self.kind == "number" else WORDS


# A text without any of these, and without digits, has no code.
_HINT = re.compile(rf"[%&@#$<{{/\\_`~[+{PLACEHOLDERS[0]}-{PLACEHOLDERS[-1]}]|-[-A-Z]|\s-[a-z]|\*[*|]|\(\)|:\S|\.[a-z]")
_PART = r"(?:[A-Za-z]*+\d[A-Za-z\d]*+|[A-Z]++(?![a-z\d]))"  # of an identifier
_RUN = re.compile(
    rf"(?<!\w)[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}(?!\w)|(?<!\w)#?{_PART}(?:(?:[-._/]|::?){_PART})*+(?!\w)"
)
_MIXED = re.compile(r"[A-Za-z]\d|\d[A-Z](?![a-z])|[A-Z][-/]\d|\d[-/][A-Z]{1,3}(?![A-Z])")


def code_in(text: str) -> list[Span]:
    """Return addresses, variables, markup and other code.

    >>> [text[begin:end] for text in ["Hi {name}, see https://a.org/b."] for begin, end, _ in code_in(text)]
    ['{name}', 'https://a.org/b']
    """
    spans = list[Span]()
    code = _CODE if _HINT.search(text) else _CODE_WITHOUT_SIGNS if _DIGIT.search(text) else None
    for match in code.finditer(text) if code else ():
        begin = match.start()
        if spans and (spans[-1].end == begin or _GLUE.fullmatch(text, spans[-1].end, begin)):
            begin = spans.pop().begin  # a translation must not move one of them
        spans.append(Span(begin, match.end(), "code"))
    return spans


def identifiers_in(text: str) -> list[Span]:
    """Return runs in which a digit directly follows a letter or is next to capitals: products, flights, hashes. Units,
    ordinals and compounds are words: *10-minute*, *mid-1990s*, and *3-Year-Old* in a title.
    """
    runs = _RUN.finditer(text) if _DIGIT.search(text) else ()
    return [Span(*run.span(), "code") for run in runs if _MIXED.search(run[0]) and not _NUMBER.fullmatch(run[0])]


def numbers_in(text: str) -> list[Span]:
    """Return numbers with their marks, and with a unit that is typed without a space; no lone 1, because it is often
    translated as a word.

    >>> text = "1 of 20, at 7:30 (3.5 %), the 42nd, 2.5km"
    >>> [text[begin:end] for begin, end, _ in numbers_in(text)]
    ['20', '7:30', '3.5', '42', '2.5km']
    """
    return [Span(*match.span(), "number") for match in _NUMBER.finditer(text) if match[0] != "1"]


def quantities_in(text: str) -> list[Span]:
    """Return all numbers, each with the currency or other sign that belongs to it.

    >>> text = "1 of $20, 20 €, 5 %, -5°C, 5 m², #12"
    >>> [text[begin:end] for begin, end, _ in quantities_in(text)]
    ['1', '$20', '20 €', '5 %', '-5°C', '5 m²', '#12']
    """
    return [Span(*match.span(), "number") for match in _QUANTITY.finditer(text)] if _DIGIT.search(text) else []


def numberings_in(text: str, numbers: Sequence[Span], context: str = "") -> list[Span]:
    """Return the `numbers` whose point is not a decimal point: sections, versions, times and dates. Evidence is a word
    before the number, a label before it, or other numbers of the text or its `context`: a version with several points,
    or 1.10 next to 1.1.
    """
    pointed = {span: point[1] for span in numbers if (point := _ONE_POINT.fullmatch(text, *span[:2]))}
    typed = {*pointed.values()}
    version = _SEVERAL_POINTS.search(f"{text} {context}") if pointed else None
    is_numbering = version is not None or len({*map(float, typed)}) < len(typed)
    labelled = {match.end() for match in _LABEL.finditer(text)} if pointed else set[int]()
    labels: list[Span] = []
    for span in pointed:
        follows = bool(labels) and _JOINT.fullmatch(text, labels[-1].end, span.begin) is not None
        is_label = is_numbering or follows or span.begin in labelled or not text[span.begin].isdigit()
        if is_label and not _MEASURED.match(text, span.end):
            labels.append(span)
    return labels


def signs_in(text: str, knows: Callable[[str], bool] = lambda _: False) -> list[Span]:
    """Return runs of pictures, signs between spaces, and words with a sign, such as *C++*, unless the training text
    `knows` their characters.
    """
    signs = _SIGN.finditer(text) if _HINT_OF_SIGN.search(text) else ()
    return [Span(*sign.span(), "code") for sign in signs if not all(mark.isalnum() or knows(mark) for mark in sign[0])]


_TIMEOUT = 2
"""The most seconds that an expression may take for one text."""


class Names:
    """Names in texts of one language, recognised by the words of a training text."""

    def __init__(self, words: Truecaser, language: str, copied: Collection[str | None] = ()) -> None:
        """Build from the words of the training text, without rare names, and the names that translations copy."""
        self._words, self._copied = words, {*_PRODUCTS, *copied}
        self._has_capitals_for_nouns = language.partition("-")[0] in _CAPITALS_FOR_NOUNS

    def unknown(self, text: str) -> list[Span]:
        """Return the names that the training text lacks; adjacent names are one span.

        >>> names = Names(Truecaser(["met", "in", "Tom"], "en"), "en")
        >>> [text[begin:end] for text in ["Tom met Jean-Luc Nakamura."] for begin, end, _ in names.unknown(text)]
        ['Jean-Luc Nakamura']
        """
        return self._find(text, lambda word: self._words.usual(word) is None)

    def all(self, text: str) -> list[Span]:
        """Return all names, also those that the training text contains."""
        return self._find(text, lambda word: not self._words.is_small(word))

    def _find(self, text: str, is_name: Callable[[str], bool]) -> list[Span]:
        large = [match for match in _WORD.finditer(text) if match[0] != match[0].lower()]
        if self._has_capitals_for_nouns or text.isupper() or self._is_title(text, [match[0] for match in large]):
            return []
        names: list[Span] = []
        has_digit = _DIGIT.search(text) is not None
        for match in large:
            begin = match.start()
            end = begin + len(_POSSESSIVE.sub("", match[0]))
            version = _VERSION.match(text, end) if has_digit else None
            is_copied = version is not None and text[begin:end] in self._copied
            if not is_copied and not (self._may_be_name(text, begin, end) and is_name(text[begin:end])):
                continue
            if names and text[names[-1].end : begin] == " ":
                begin = names.pop().begin
            names.append(Span(begin, version.end() if version else end, "name"))
        return names

    def _may_be_name(self, text: str, begin: int, end: int) -> bool:
        word = text[begin:end]
        longest = max(_JOINTS.split(word), key=len)
        if len(longest) < 2 or self._words.is_small(longest):
            return False
        is_first = word[1:].islower() and _BEGINNING.search(text, max(0, begin - 60), begin) is not None
        return not (is_first and self._words.usual(word) is None and self._is_like_a_word(word.lower()))

    def _is_like_a_word(self, word: str) -> bool:
        """Return True if a word may be another form of a word of the training text: that word with up to three more
        letters, or a word that begins with the same letters, at least five, and ends in up to three others.
        """
        if any(self._words.is_small(word[:end]) for end in range(max(4, len(word) - 3), len(word))):
            return True
        beginning = word[: max(5, len(word) - 3)]
        return self._words.has_beginning(beginning, len(beginning) + 3)

    def _is_title(self, text: str, large: Sequence[str]) -> bool:
        """Return True if most words that are usually small are among the `large` ones."""
        if sum(map(self._words.is_small, large)) < 2:
            return False
        small = [match[0] for match in _WORD.finditer(text) if self._words.is_small(match[0])]
        return 2 * sum(word[0].isupper() for word in small[1:]) > len(small)


def spans_matching(expressions: Sequence[str], text: str) -> list[Span]:
    """Return the matches of regular expressions, in the order of the expressions, then scripts and styles.

    Raises:
        DecodeError: an expression is invalid, matches an empty text, or takes too long.
    """
    spans: list[Span] = []
    for expression in expressions:
        import regex  # here, because few texts are read with expressions

        shown = f"decode.protect holds {expression[:60]!r}, which"
        try:
            spans += [Span(*match.span(), "code") for match in regex.finditer(expression, text, timeout=_TIMEOUT)]
        except (regex.error, RecursionError) as error:
            raise DecodeError(f"{shown} is no regular expression: {error}") from None
        except (TimeoutError, MemoryError):
            raise DecodeError(
                f"{shown} takes longer than {_TIMEOUT} seconds for {text[:60]!r}; give a simpler one, "
                "without repetitions in repetitions"
            ) from None
        if any(span.begin == span.end for span in spans):
            raise DecodeError(f"{shown} also matches an empty text")
    return spans + [Span(*match.span(), "code") for match in re.finditer(_SCRIPT, text)]


def localised(number: str, source: str, target: str) -> str:
    """Return a number of one language with the marks of another before decimals and between thousands.

    >>> localised("1,234.50", "en", "it"), localised("1.234,50", "it", "en"), localised("1,000", "en", "fr")
    ('1.234,50', '1,234.50', '1\u202f000')
    >>> [localised(number, "en", "it") for number in ("7:30", "1.2.3", "1,5,7", "2026", "2.5km", "$3.50")]
    ['7:30', '1.2.3', '1,5,7', '2026', '2,5km', '$3,50']
    """
    if number.isdecimal():
        return number
    (thousands, decimal), (other_thousands, other_decimal) = _marks(source), _marks(target)
    spaces = " \u00a0\u202f.'’" if thousands != "," else ","
    parts = re.fullmatch(rf"(1:|\D*)(\d{{1,3}}(?:[{spaces}]\d{{3}})+|\d+)(?:{re.escape(decimal)}(\d+))?(\D*)", number)
    if parts is None or (thousands, decimal) == (other_thousands, other_decimal):
        return number
    whole = parts[1].replace(decimal, f"0{other_decimal}") + re.sub(rf"[{spaces}]", other_thousands, parts[2])
    return whole + ("" if parts[3] is None else other_decimal + parts[3]) + parts[4]


def _marks(language: str) -> tuple[str, str]:
    """Return the marks that a language writes between thousands and before decimals (CLDR)."""
    base = language.partition("-")[0]
    if base in _DECIMAL_POINT:
        return ",", "."
    return ("\u202f" if base in _SPACE_BETWEEN_THOUSANDS else "."), ","


def shared_spans(source: str, target: str, names: Names) -> list[tuple[Span, Span]]:
    """Return names, code and numbers that occur once on each side of a sentence pair, as pairs of source and target
    spans. The marks of numbers may differ.

    >>> names = Names(Truecaser(["paid", "pagò"], "en"), "en")
    >>> [(span.begin, copy.begin) for span, copy in shared_spans("Tom paid 3.50.", "Pagò Tom 3,50.", names)]
    [(0, 5), (9, 9)]
    """
    shared: list[tuple[Span, Span]] = []
    for span in without_overlaps(source, code_in(source), names.all(source)):
        text = source[span.begin : span.end]
        copies = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(text)}(?!\w)", target)]
        if len(copies) == 1 and source.count(text) == 1:
            shared.append((span, Span(*copies[0], span.kind)))
    numbers, copies = (_numbers_by_digits(side) for side in (source, target))
    for digits, spans in numbers.items():
        if len(spans) == 1 and len(copies.get(digits, ())) == 1:
            shared.append((spans[0], copies[digits][0]))
    targets = without_overlaps(target, (copy for _, copy in shared))
    sources = without_overlaps(source, (span for span, copy in shared if copy in targets))
    return sorted((span, copy) for span, copy in shared if copy in targets and span in sources)


def _numbers_by_digits(text: str) -> dict[str, list[Span]]:
    """Return the numbers of a text by their digits and letters, without marks."""
    numbers: defaultdict[str, list[Span]] = defaultdict(list)
    for span in numbers_in(text):
        numbers["".join(filter(str.isalnum, text[span.begin : span.end]))].append(span)
    return numbers


def without_overlaps(text: str, *kinds: Iterable[Span]) -> list[Span]:
    """Return spans in order, without those that overlap an earlier span of the arguments."""
    taken = bytearray(len(text))
    kept = []
    for span in chain.from_iterable(kinds):
        if not any(taken[span.begin : span.end]):
            taken[span.begin : span.end] = b"x" * (span.end - span.begin)
            kept.append(span)
    return sorted(kept)


def replaced(text: str, spans: Sequence[Span], replacements: Sequence[str]) -> str:
    """Return the text with a replacement for each span.

    >>> replaced("Dear Ann,", [Span(5, 8, "name")], ["{name}"])
    'Dear {name},'
    """
    parts, end = [], 0
    for span, replacement in zip(spans, replacements, strict=True):
        parts += [text[end : span.begin], replacement]
        end = span.end
    return "".join([*parts, text[end:]])
