"""Letters of a text: upper and lower case by language, the usual form of each word (truecasing), and characters. A
sentence gets the letters of the training text, and its translation the letter case and quotes of the source.
"""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from itertools import takewhile

from dragoman.surface.conventions import END_MARKS, Conventions
from dragoman.surface.placeholders import ANY_PLACEHOLDER, shown
from dragoman.surface.quotes import QUOTES, requoted
from dragoman.surface.segment import Case, Context, Restored, Segment, Step

_ASCII, _DASH = {"’": "'", "…": "..."}, "-"
_APOSTROPHES, _DASHES, _USUAL_DASHES = "'’ʼ‘´`′‛＇", "‐‑‒−–—―", "-–—"
_COMPATIBLE = "<wide> <narrow> <compat> <font> <noBreak> <initial> <medial> <final> <isolated>".split()
_JOINERS = "\u200c\u200d"  # they change how Persian and Indian words are written
_SPACES = re.compile(r"\s\s+")
_DOTTED = ("tr", "az")  # i and İ are one letter, ı and I another
_OWN_CAPITALS = (*_DOTTED, "lt", "el")
_TONOS, _DOT_ABOVE = "\u0301", "\u0307"
_WORD = re.compile(
    r"(?<!\S)\S*?[@/\\{}<>$%#_=]\S*"  # addresses, placeholders and tags are no words
    r"|(?:[^\W\d_]\.){2,}"  # U.S.
    r"|(?<!\w)(?P<word>[^\W\d_](?:[^\W\d_]|[\u0300-\u036f\u00ad])*+)(?!\w)"
)
_PARTS = re.compile(r"[.!?…:]\s|[\"“”„«»(]")  # the next word may have a capital because it is the first
_BEGINNING = re.compile(
    rf"(?<!\S)((?:(?!{ANY_PLACEHOLDER})[^\w\s@/\\{{}}<>$%#=])*+)(ij|[^\W\d_])"
    r"(?![^\W\d_]*+(?:[@/\\{}<>$%#_=\d]|[.:][\w/]))"
)


def lower(text: str, language: str) -> str:
    """Return a text in lower case.

    >>> lower("ISPARTA İLİ", "tr"), lower("ΟΔΟΣ", "el")
    ('ısparta ili', 'οδος')
    """
    if _base(language) in _DOTTED:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def upper(text: str, language: str) -> str:
    """Return a text in upper case. Greek letters lose their accents, and Lithuanian i and j their separate dots.

    >>> upper("istanbul", "tr"), upper("Straße", "de"), upper("οδός", "el")
    ('İSTANBUL', 'STRASSE', 'ΟΔΟΣ')
    """
    match _base(language):
        case "tr" | "az":
            text = text.replace("i", "İ")
        case "lt":
            text = text.replace("i" + _DOT_ABOVE, "i").replace("j" + _DOT_ABOVE, "j")
        case "el":
            text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).replace(_TONOS, ""))
    return text.upper()


def capitalised(text: str, language: str) -> str:
    """Return the text with a capital at its first letter, after any marks. Numbers, addresses and i.e. stay.

    >>> capitalised("“ijs is koud.", "nl"), capitalised("il cane", "it"), capitalised("@tom e io", "it")
    ('“IJs is koud.', 'Il cane', '@tom e io')
    """
    first = _BEGINNING.match(text)
    return first[1] + _capital(first[2], language) + text[first.end() :] if first else text


def title(text: str, language: str, keep_short: bool) -> str:
    """Return a text in title case; with `keep_short`, short words after the first stay as they are.

    >>> title("la fine del mondo", "it", False), title("il signore degli anelli", "it", True)
    ('La Fine Del Mondo', 'Il Signore Degli Anelli')
    """

    def titled(match: re.Match[str]) -> str:
        word = _WORD.match(text, match.start(2))
        kept = keep_short and match.start() > 0 and word is not None and len(word[0]) <= SHORT
        return match[0] if kept else match[1] + _capital(match[2], language)

    return _BEGINNING.sub(titled, text)


SHORT = 3
"""The most letters of words that titles may write in lower case (of, the, di, der), and of unknown words in capitals
that are taken for abbreviations.
"""


def is_title(text: str) -> bool:
    """Return True for title case: several longer words after the first, and all with a capital.

    >>> is_title("Apply the Page Style"), is_title("He met Andy Warhol today"), is_title("PAGE STYLE OPTIONS")
    (True, False, False)
    """
    longer = [word for word in words_in(text)[1:] if len(word) > SHORT]
    return len(longer) > 1 and all(map(str.istitle, longer))


def begins_small(text: str) -> bool:
    """Return True if the text begins with a word in lower case, unlike iPhone."""
    first = _BEGINNING.match(text)
    return first is not None and first[2].islower() and not text[first.end() : first.end() + 1].isupper()


def words_in(text: str) -> list[str]:
    """Return the words of a text, without marks, numbers, addresses and abbreviations such as U.S."""
    return [word for word in _WORD.findall(text) if word]


def usual_forms(texts: Iterable[str]) -> list[str]:
    """Return the words of texts, most frequent first, each in its most frequent form inside a sentence. A word that
    only begins sentences gets lower case. Texts in capitals are ignored.
    """
    inside, first = Counter[str](), Counter[str]()
    for text in texts:
        if not text.islower() and text == text.upper():
            continue
        for sentence in _PARTS.split(text):
            if words := words_in(sentence):
                first[words[0].lower()] += 1
                inside.update(words[1:])
    forms: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for word, count in inside.items():
        forms[word.upper()].append((count, word))
    for word, count in first.items():
        if word.upper() not in forms:
            forms[word.upper()].append((count, word))
    frequent = sorted(forms.values(), key=lambda forms: -sum(count for count, _ in forms))
    return [max(forms)[1] for forms in frequent]


class Truecaser:
    """The letter case in which a text usually writes each word."""

    def __init__(self, words: Sequence[str], language: str) -> None:
        """Build from the words of the text in their usual forms; earlier words win."""
        self._language = language
        self._upper = partial(upper, language=language) if _base(language) in _OWN_CAPITALS else str.upper
        self._usual = {self._upper(word): word for word in reversed(words)}

    def usual(self, word: str) -> str | None:
        """Return the usual form of a word inside a sentence; None for an unknown word."""
        return self._usual.get(self._upper(word))

    def is_small(self, word: str) -> bool:
        """Return True if the text usually writes a word in lower case inside a sentence."""
        usual = self.usual(word)
        return usual is not None and usual[0].islower()

    def has_beginning(self, letters: str, longest: int) -> bool:
        """Return True if a lower-case word of at most `longest` letters begins with these letters."""
        first = bisect_left(self._small, letters)
        following = (self._small[number] for number in range(first, len(self._small)))
        return any(len(word) <= longest for word in takewhile(lambda word: word.startswith(letters), following))

    @cached_property
    def forms(self) -> frozenset[str]:
        """The words in their usual forms."""
        return frozenset(self._usual.values())

    @cached_property
    def _small(self) -> list[str]:
        return sorted(word for word in self._usual.values() if word.islower())

    def recased(self, text: str) -> str:
        """Return the text with words in their usual form, and unknown ones in lower case, except FBI and XIV."""

        def usual(match: re.Match[str]) -> str:
            word = match["word"]
            if not word:
                return match[0]
            stays = word.isupper() and (len(word) <= SHORT or set(word) <= set("IVX"))
            return self.usual(word) or (word if stays else lower(word, self._language))

        return _WORD.sub(usual, text)


class LanguageSide:
    """One side of a language pair: its language, its conventions, the usual forms of its words, and its names."""

    def __init__(self, conventions: Conventions, others: Conventions, language: str) -> None:
        """Build from the conventions of this side and the other side, and the language of this side."""
        self.conventions, self._others, self.language = conventions, others, language

    @cached_property
    def truecaser(self) -> Truecaser:
        """The usual forms of the words of this side."""
        return Truecaser(self.conventions.words, self.language)

    @cached_property
    def names(self) -> set[str]:
        """The words that the other side writes with a capital."""
        return {word for word in self._others.words if word[0].isupper()}

    def is_name(self, word: str) -> bool:
        """Return True for a word that the training text lacks, or that both sides write as a name."""
        usual = self.truecaser.usual(word)
        return usual is None or usual in self.names


class Normaliser:
    """Normalisation of text to the characters of a training text."""

    def __init__(self, conventions: Conventions) -> None:
        self._conventions = conventions
        self._unchanged = {" "}

    def normalised(self, text: str) -> str:
        """Return the text in the characters of the training text."""
        return self.rewritten(text)[0]

    def rewritten(self, text: str) -> tuple[str, str]:
        """Return the normalised text, and the quotes, apostrophes, dashes and ellipses that were replaced, in order."""
        conventions, styles, quotes = self._conventions, "", ""
        if unchecked := set(text) - self._unchanged:
            replaced = {typed: usual for typed in sorted(unchecked) if (usual := self._usual(typed)) != typed}
            if unchecked.intersection(QUOTES):
                quotes = "".join(typed for typed in dict.fromkeys(text) if typed in QUOTES)
            styles = "".join(typed for typed in replaced if typed in _APOSTROPHES + _DASHES + "…")
            self._unchanged.update(unchecked - replaced.keys() - set(quotes))
            text = "".join(replaced.get(typed, typed) for typed in text)
        text = unicodedata.normalize("NFC", text)
        knows, usual = conventions.knows, conventions.quotes
        if quotes and usual and any(typed not in usual and not knows(typed) for typed in quotes):
            text, styles = requoted(text, usual), styles + quotes
        if "..." in text and not conventions.knows("...") and conventions.knows("…"):
            text = text.replace("...", "…")
        return _SPACES.sub(" ", text), styles

    def _usual(self, character: str) -> str:
        """Return the training text's character for this one; the same if there is no better one."""
        if not self._conventions.sentences:
            return plain_character(character, with_variants=False)
        if self._conventions.knows(character) or character in QUOTES:
            return character
        counts = self._conventions.characters
        for variants, usual in ((_APOSTROPHES, _APOSTROPHES), (_DASHES, _USUAL_DASHES)):
            if character in variants:
                return max(usual, key=lambda variant: (counts.get(variant, 0), variant == character))
        return plain_character(character)


class Letters(Step):
    """Step that writes a sentence in the letters of the training text, and gives its translation the letter case and
    the style of quotes, apostrophes and dashes that were typed.
    """

    def __init__(self, source: LanguageSide, target: LanguageSide) -> None:
        self._source, self._target = source, target
        self._normaliser = Normaliser(source.conventions)

    def apply(self, segment: Segment, context: Context) -> list[Segment]:
        """Rewrite the characters, then the letter case."""
        text, styles = self._normaliser.rewritten(segment.text)
        if not self._source.conventions.sentences:
            return [segment if text == segment.text else segment._replace(text=text)]
        case = self._typed_case(shown(text), text[-1:] in END_MARKS or bool(segment.marks))
        if case == "title" and any(word[0].islower() for word in segment.text.split()[1:]):
            case = "title with small words"
        text = self._recased(text, case)
        return [segment._replace(text=text, case=case, styles=styles)]

    def restore(self, segment: Segment, translations: Sequence[Restored]) -> Restored:
        """Give the translation the letter case and the style of the source."""
        (translation,) = translations
        if segment.case == "usual" and not segment.styles:
            return translation
        text = self._restyled(self._in_case(translation.text, segment.case), segment.styles)
        return translation._replace(text=text)

    def _recased(self, text: str, case: Case) -> str:
        """Return a text that was typed in this case in the letter case of the training text."""
        if case == "usual":
            return text
        plain = self._source.truecaser.recased(text) if case != "small beginning" or text.islower() else text
        return capitalised(plain, self._source.language) if self._source.conventions.begins_with_capitals else plain

    def _typed_case(self, text: str, is_sentence: bool) -> Case:
        """Return the letter case of a text, from which placeholders have been replaced by `shown`."""
        if text.islower() or begins_small(text):
            if self._source.conventions.has_small_beginnings:
                return "usual"
            return "small" if text.islower() and is_sentence else "small beginning"
        if any(len(word) > SHORT and word.islower() for word in text.split()):
            return "usual"
        words = [word for part in text.split() for word in words_in(part)[:1]]  # not the t of don't
        if text.isupper():
            is_small = self._source.truecaser.is_small
            return "capitals" if any(len(word) > SHORT or is_small(word) for word in words) else "usual"
        if self._source.conventions.has_titles and not is_sentence:
            return "usual"
        inner = [word for word in words[1:] if self._source.truecaser.is_small(word)]
        return "title" if 2 * sum(map(str.istitle, inner)) > len(inner) else "usual"

    def _in_case(self, text: str, case: Case) -> str:
        """Return a translation in this letter case."""
        match case:
            case "capitals":
                return upper(text, self._target.language)
            case "title" | "title with small words":
                return title(text, self._target.language, case == "title with small words")
            case "small":
                return lower(text, self._target.language)
            case "small beginning":
                first = next(iter(words_in(text)), "")
                usual = self._target.truecaser.usual(first) or first.lower()
                return text.replace(first, usual, 1) if usual[:1].islower() and not first[1:].isupper() else text
        return text

    def _restyled(self, text: str, styles: str) -> str:
        """Return a translation with the typed apostrophes, dashes and double quotes in place of plain ones."""
        if "‘" in styles:
            text = requoted(text, "‘’", "'")
        quotes = [typed for typed in styles if typed in QUOTES]
        if quotes and '"' in text:
            text = requoted(text, (quotes[0], quotes[1] if len(quotes) > 1 else quotes[0]))
        for typed in styles:
            if typed in _ASCII:
                text = text.replace(_ASCII[typed], typed)
            elif typed in "–—―":
                text = " ".join(typed if word == _DASH else word for word in text.split(" "))
        return text


def plain_character(character: str, with_variants: bool = True) -> str:
    """Return the plain form of a character: a space for any white space, nothing for an invisible one, else itself.

    With `with_variants`, ligatures, full-width forms and other variants become the usual characters.

    >>> [plain_character(character) for character in ("\u00a0", "\u00ad", "ﬁ", "Ａ", "²")]
    [' ', '', 'fi', 'A', '²']
    """
    category = unicodedata.category(character)
    if category in ("Zs", "Zl", "Zp") or character in "\t\n\r\v\f\u200b":
        return " "
    if with_variants and unicodedata.decomposition(character).partition(" ")[0] in _COMPATIBLE:
        usual = unicodedata.normalize("NFKC", character)
        return character if usual.startswith(" ") else usual
    return "" if category in ("Cf", "Cc") and character not in _JOINERS else character


def _capital(letters: str, language: str) -> str:
    if _base(language) == "nl":
        return upper(letters, language)
    return upper(letters[0], language) + letters[1:]


def _base(language: str) -> str:
    return language.partition("-")[0]
