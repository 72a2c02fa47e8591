"""Marks around a sentence that are no part of it: quotes, brackets, bullets, numbers, a speaker's name, emphasis, and
unusual marks at its end. They form a run of marks and spaces on each side. A mark whose partner is in the sentence
belongs to the sentence, and so do the marks between the two.
"""

import re
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from typing import NamedTuple

from dragoman.surface.conventions import END_MARKS, MARKS
from dragoman.surface.letters import LanguageSide, words_in
from dragoman.surface.placeholders import shown
from dragoman.surface.quotes import CLOSING, PAIR, PAIRED, QUOTES, SINGLE_QUOTES, partners
from dragoman.surface.segment import Context, Restored, Segment, Step

_SPACE = r"[\s\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
_MARK = rf"[{MARKS}:;,：；，、،؛–—―-]"
_NAME = r"[^\W\d_][\w.'’-]*+(?:\ [^\W\d_][\w.'’-]*+){0,2}(?:\ \d{1,3})?"
_NUMBER = r"\d{1,3}(?:\.\d{1,3})*+"
_FRONT = re.compile(
    rf"""(?P<space>{_SPACE}++)
      | (?P<ellipsis>…++|\.\.++)
      | (?P<bullet>(?:[·–—―•▪◦‣●○■□►▶➤✓✔+]|[-*>]{{1,6}}|\#{{1,6}}(?!\ \d)|\[[ xX]\])(?={_SPACE})
          |[–—―]|--?(?=[^\W\d_]|[¿¡{QUOTES}]))
      | (?P<number>(?:\(?(?:{_NUMBER}|[^\W\d_]|[ivxIVX]{{1,5}})\)|(?:{_NUMBER}|[a-hivx]|[ivx]{{2,5}}|[IVX]{{2,5}})\.
          |\d{{1,3}}(?:\.\d{{1,3}}){{2,4}}|\[\d{{1,3}}\])(?={_SPACE}))
      | (?P<speaker>(?:{_NAME}(?:\ \([^()]{{1,40}}\))?:|\[{_NAME}\]:?|<{_NAME}>)(?={_SPACE}))
      | {PAIR}""",
    re.VERBOSE,
)
_BACK = re.compile(rf"(?P<marks>(?:{_SPACE}*+{_MARK})++) | (?P<space>{_SPACE}++) | {PAIR}", re.VERBOSE)
_BACKWARDS = re.compile(rf"(?:{_SPACE}|{_MARK}|[{QUOTES}{SINGLE_QUOTES}{re.escape(CLOSING)}*_~`])*+")
_BARE = re.compile(r"[^\W\d_]{2}[\w\s,'’-]*\w[.!?]")  # most sentences: no marks around them
_LONG = 1_000  # characters of a sentence in which the next number of a list is looked for
_ABBREVIATION = re.compile(r"[^\W\d_]\.[^\W\d_]\.")


class Peeled(NamedTuple):
    """A sentence and the marks around it. `before + core + after` is the whole text."""

    before: str
    core: str
    """The sentence, with its mark if that is a usual one."""
    after: str
    marks: str = ""
    """The marks in `after` that end the sentence; if there are any, `core` has no end mark."""
    kinds: frozenset[str] = frozenset()
    """Their kinds: "bullet", "number", "speaker", "quotes", "brackets", "emphasis", "ellipsis", "marks" (several end
    marks), "colon" (a mark that ends no sentence) and "spaced mark" (a mark after a space).
    """


def peel(text: str, known: Collection[str] = (), is_name: Callable[[str], bool] = lambda _: True) -> Peeled:
    """Take the marks off a sentence, from outside, up to a kind that is `known`; `is_name` judges speakers.

    >>> peel("- “Stop!!”")[:4], peel("“Stop!”")[:4]
    (('- “', 'Stop', '!!”', '!!'), ('“', 'Stop!', '”', ''))
    >>> peel("“Yes”, he said.")[:4], peel("“No”.")[:4]
    (('', '“Yes”, he said.', '', ''), ('“', 'No', '”.', '.'))
    """
    if _BARE.fullmatch(text):
        return Peeled("", text, "")
    begin, end = 0, len(text) - len(_BACKWARDS.match(text[::-1])[0])  # pyright: ignore[reportOptionalSubscript]
    if not end:
        return Peeled("", text, "")
    end += bool(_ABBREVIATION.match(text, max(0, end - 3)))
    front, back = list[re.Match[str]](), [*_BACK.finditer(text, end)][::-1]  # from outside
    while (match := _FRONT.match(text, begin)) and match.end() < end:
        front.append(match)
        begin = match.end()
    items = [*front, *back]
    partner = partners(text) if any(item.lastgroup in PAIRED.groupindex for item in items) else {}
    for item in items:
        if _kind(item) in known or (item.lastgroup == "speaker" and not is_name(item[0])) or _goes_on(item):
            partner[item.start()] = item.start()
        elif item.lastgroup not in PAIRED.groupindex:
            partner.pop(item.start(), None)  # the bracket of a number
    for _ in range(2):  # a mark that stays on one side keeps its partner on the other
        back = _outside(back, partner, range(begin, len(text)))
        end = back[-1].start() if back else len(text)
        front = _outside(front, partner, range(end))
        begin = front[-1].end() if front else 0
    kinds = frozenset(map(_kind, (*front, *back))) - {"space", "mark"}
    if back and _kind(back[-1]) == "mark":
        return Peeled(text[:begin], text[begin : end + 1], text[end + 1 :], "", kinds)
    marks = next((item[0] for item in reversed(back) if item.lastgroup == "marks"), "")
    return Peeled(text[:begin], text[begin:end], text[end:], marks, kinds)


class Around(Step):
    """Step that takes off the marks around a sentence, and puts them around the translation, with the quotes of
    the target language.
    """

    def __init__(self, source: LanguageSide, target: LanguageSide) -> None:
        self._source, self._target = source, target

    def apply(self, segment: Segment, context: Context) -> list[Segment]:
        """Take off the kinds that are rare in the training text."""
        peeled = peel(segment.text, self._source.conventions.around_known, self._is_name)
        if not peeled.before and not peeled.after:
            return [segment]
        return [segment._replace(text=peeled.core, before=peeled.before, after=peeled.after, marks=peeled.marks)]

    def restore(self, segment: Segment, translations: Sequence[Restored]) -> Restored:
        """Put both sides around the translation."""
        (translation,) = translations
        if not segment.before and not segment.after:
            return translation
        after = segment.after if translation.after is None else translation.after
        closing = self._quoted(after, 1) if translation.is_whole else ""
        return translation._replace(text=self._quoted(segment.before, 0) + translation.text + closing)

    def _is_name(self, speaker: str) -> bool:
        """Return True if no word of a speaker's name is translated. Single letters never are."""
        words = words_in(speaker.partition("(")[0])
        return all(word[0].isupper() and (len(word) == 1 or self._source.is_name(word)) for word in words)

    def _quoted(self, typed: str, side: int) -> str:
        """Return the marks before (0) or after (1) a sentence, with the quotes of the target language."""
        quotes, changed = self._target.conventions.quotes, QUOTES
        if quotes == '""':
            quotes, changed = self._target.conventions.quotes_of_print, QUOTES.replace('"', "")
        if not quotes:
            return typed
        return "".join(quotes[side] if character in changed else character for character in typed)


class EndMark(Step):
    """Step that gives a sentence the usual end mark if it has none, and removes the end mark of the translation."""

    def __init__(self, source: LanguageSide, target: LanguageSide) -> None:
        self._conventions, self._language = source.conventions, target.language

    def apply(self, segment: Segment, context: Context) -> list[Segment]:
        """Add a mark if marks were taken off, or if every sentence of the training text ends in a mark."""
        is_bare = shown(segment.text[-1:]).isalnum() and not self._conventions.has_sentences_without_mark
        if not segment.marks and not is_bare:
            return [segment]
        text = segment.text + self._conventions.mark(segment.marks)
        return [segment._replace(text=text, has_added_mark=True)]

    def restore(self, segment: Segment, translations: Sequence[Restored]) -> Restored:
        """Remove the mark of the translation, and write the typed marks as its language does."""
        (translation,) = translations
        if not segment.has_added_mark or not translation.is_whole:
            return translation
        text, is_greek = translation.text, self._language.startswith("el")
        others = "".join(END_MARKS - {"."}) + ";" * is_greek
        bare = text.rstrip(others if text[-1] in others else ".")  # the stop of p.m.! stays
        space, mark = text[len(bare.rstrip()) : len(bare)], text[len(bare) :]
        if not bare.strip():
            return translation
        marks = typed = segment.marks
        if is_greek or (mark and not mark.isascii()):
            typed = marks.translate(str.maketrans("?!", ";!" if is_greek else "？！"))
        if marks[:1] in set("?!:;"):
            typed = space + typed
        return translation._replace(text=bare.rstrip(), after=segment.after.replace(marks, typed, 1))


def _outside(items: list[re.Match[str]], partner: dict[int, int], inside: range) -> list[re.Match[str]]:
    """Return the items, from outside, up to the first whose partner is inside."""
    return [*takewhile(lambda item: partner.get(item.start(), -1) not in inside, items)]


def _kind(item: re.Match[str]) -> str:
    run = item[0]
    if item.lastgroup != "marks":
        return item.lastgroup or ""
    if run in END_MARKS and run != "…":
        return "mark"
    if set(run) <= set(".…"):
        return "ellipsis"
    if run[0].isspace() and len(run.strip()) == 1:
        return "spaced mark"
    return "colon" if END_MARKS.isdisjoint(run) else "marks"


def _goes_on(item: re.Match[str]) -> bool:
    """Return True if an item numbers the first of several things in one sentence: 1) tea, 2) coffee."""
    number = item[0].strip("()[].")
    following = item[0].replace(number, number[:-1] + chr(ord(number[-1]) + 1)) if item.lastgroup == "number" else ""
    return bool(following) and f" {following} " in item.string[item.end() : item.end() + _LONG]
