"""What stands around a sentence and is no part of it: quotes, brackets, bullets, numbers, a speaker's name, emphasis,
and other marks at its end than one. On each side it is a run of marks and spaces. A mark stays in the sentence if its
partner stands inside, and so does all between them.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection
from itertools import takewhile
from typing import NamedTuple

QUOTES = '"“”„‟«»‹›「」『』〝〞＂'
_SINGLE = "'’‘‚"
_OPENING, _CLOSING = "([{（【〈《", ")]}）】〉》"
_MARKS = ".!?…。．！？｡؟।॥।"
END_MARKS = frozenset(_MARKS)

_SPACE = r"[\s\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
_MARK = rf"[{_MARKS}:;,：；，、،؛–—―-]"
_NAME = r"[^\W\d_][\w.'’-]*+(?:\ [^\W\d_][\w.'’-]*+){0,2}(?:\ \d{1,3})?"
_NUMBER = r"\d{1,3}(?:\.\d{1,3})*+"
_PAIR = rf"""(?P<quotes>``|''|(?<![^\s(]),,(?=\w)|[{QUOTES}{_SINGLE}])
      | (?P<brackets>[{re.escape(_OPENING + _CLOSING)}])
      | (?P<emphasis>\*++|_++|~++|`)"""
_FRONT = re.compile(
    rf"""(?P<space>{_SPACE}++)
      | (?P<ellipsis>…++|\.\.++)
      | (?P<bullet>(?:[·–—―•▪◦‣●○■□►▶➤✓✔+]|[-*>]{{1,6}}|\#{{1,6}}(?!\ \d)|\[[ xX]\])(?={_SPACE})
          |[–—―]|--?(?=[^\W\d_]|[¿¡{QUOTES}]))
      | (?P<number>(?:\(?(?:{_NUMBER}|[^\W\d_]|[ivxIVX]{{1,5}})\)|(?:{_NUMBER}|[a-hivx]|[ivx]{{2,5}}|[IVX]{{2,5}})\.
          |\d{{1,3}}(?:\.\d{{1,3}}){{2,4}}|\[\d{{1,3}}\])(?={_SPACE}))
      | (?P<speaker>(?:{_NAME}(?:\ \([^()]{{1,40}}\))?:|\[{_NAME}\]:?|<{_NAME}>)(?={_SPACE}))
      | {_PAIR}""",
    re.VERBOSE,
)
_BACK = re.compile(rf"(?P<marks>(?:{_SPACE}*+{_MARK})++) | (?P<space>{_SPACE}++) | {_PAIR}", re.VERBOSE)
_BACKWARDS = re.compile(rf"(?:{_SPACE}|{_MARK}|[{QUOTES}{_SINGLE}{re.escape(_CLOSING)}*_~`])*+")
_PAIRED = re.compile(_PAIR, re.VERBOSE)
_RUN = re.compile(rf"(?:[{QUOTES}{_SINGLE}{re.escape(_OPENING + _CLOSING)}*_~`]|(?<![^\s(]),,(?=\w))++")
_FAMILY = {
    **dict.fromkeys([*QUOTES, "``", "''", ",,"], '"'),
    **dict.fromkeys(_SINGLE, "'"),
    **dict(zip(_CLOSING, _OPENING, strict=True)),
}
_BARE = re.compile(r"[^\W\d_]{2}[\w\s,'’-]*\w[.!?]")  # most sentences: nothing stands around them
_LONG = 1_000  # characters of a sentence in which the next number of a list is looked for
_ABBREVIATION = re.compile(r"[^\W\d_]\.[^\W\d_]\.")


class Peeled(NamedTuple):
    """A text and what stands around it. `before + core + after` is the whole text."""

    before: str
    core: str
    """The sentence, with its mark if that is a usual one."""
    after: str
    marks: str = ""
    """The marks in `after` that end the sentence, which then has none of its own."""
    kinds: frozenset[str] = frozenset()
    """Of what stands around it: "bullet", "number", "speaker", "quotes", "brackets", "emphasis" and "ellipsis"; "marks"
    are several marks of an end, "colon" is a mark that ends no sentence, and "spaced mark" has a space before it.
    """


def peel(text: str, known: Collection[str] = (), is_name: Callable[[str], bool] = lambda _: True) -> Peeled:
    """Takes off what stands around a sentence, from outside, up to a kind that is `known`; `is_name` judges speakers.

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
    partner = partners(text) if any(item.lastgroup in _PAIRED.groupindex for item in items) else {}
    for item in items:
        if _kind(item) in known or (item.lastgroup == "speaker" and not is_name(item[0])) or _goes_on(item):
            partner[item.start()] = item.start()
        elif item.lastgroup not in _PAIRED.groupindex:
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


def _outside(items: list[re.Match[str]], partner: dict[int, int], inside: range) -> list[re.Match[str]]:
    """The items, from outside, up to the first whose partner stands inside."""
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
    """Whether it numbers the first of several things in one sentence: 1) tea, 2) coffee."""
    number = item[0].strip("()[].")
    following = item[0].replace(number, number[:-1] + chr(ord(number[-1]) + 1)) if item.lastgroup == "number" else ""
    return bool(following) and f" {following} " in item.string[item.end() : item.end() + _LONG]


def partners(text: str) -> dict[int, int]:
    """The place of each quote, bracket and mark of emphasis, and that of its partner: the length of the text if it is
    not closed, -1 if it was not opened, and its own place for an apostrophe, inches and quotes around nothing.

    >>> partners("“It's (he”) 5'")
    {3: 3, 0: 9, 9: 0, 6: 10, 10: 6, 13: 13}
    """
    found: dict[int, int] = {}
    opened: defaultdict[str, list[int]] = defaultdict(list)
    for run in _RUN.finditer(text):
        before, behind = text[run.start() - 1 : run.start()], text[run.end() : run.end() + 1]
        is_first, is_last = before.isspace() or before in "¿¡—–-…", behind.isspace() or behind in ".,!?;:…"
        opens = not before or (behind != "" and (is_first if is_first != is_last else not opened['"']))
        is_empty = run[0] in ('""', "“”") and not before.strip() and (not behind or is_last)
        is_apostrophe = run[0] in {*_SINGLE} and before.isalnum() and behind.isalnum()
        for match in _PAIRED.finditer(text, run.start(), run.end()):
            mark, place = match[0], match.start()
            others = opened[_FAMILY.get(mark, mark)]
            if is_empty or is_apostrophe:
                found[place] = place
            elif mark in _OPENING or (opens and mark not in _CLOSING):
                others.append(place)
            elif others:
                found[others[-1]], found[place] = place, others[-1]
                others.pop()
            else:
                found[place] = place if mark in _SINGLE or (mark == '"' and before.isdigit()) else -1
    for mark, places in opened.items():
        found.update((place, place if mark == "'" else len(text)) for place in places)
    return found
