"""What stands around a sentence and is no part of it: quotes, brackets, bullets, numbers, a speaker's name, emphasis,
and more marks at its end than one.
"""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Literal, NamedTuple

Kind = Literal["quotes", "brackets", "bullet", "number", "speaker", "emphasis", "ellipsis", "marks", "colon"]
"""What can stand around a sentence. "marks" are several marks of an end, "colon" is a mark that ends no sentence."""

QUOTES = '"“”„‟«»‹›「」『』〝〞＂'
_BRACKETS = ("()", "[]", "{}", "（）", "【】", "〈〉", "《》")
_INCHES = "\"'"
_EMPHASIS = "*_~`"
_SINGLE = "'’‘‚"

_SPACE = r"[\s\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
_FRONT = re.compile(
    rf"""(?P<space>{_SPACE}++)
      | (?P<ellipsis>…++|\.\.++)
      | (?P<bullet>(?:[–—―•·▪◦‣●○■□►▶➤✓✔+]|[-*#>]{{1,6}}|\[[ xX]\])(?={_SPACE})|[–—―]|--?(?=[^\W\d_]|[¿¡{QUOTES}]))
      | (?P<number>\(?(?:\d{{1,3}}(?:\.\d{{1,3}})*+|[^\W\d_]|[ivxIVX]{{1,5}})\)(?={_SPACE})
          |(?:\d{{1,3}}(?:\.\d{{1,3}})*+|[a-hivx]|[ivx]{{2,5}})\.(?={_SPACE}))
      | (?P<speaker>[^\W\d_][\w.'’-]*+(?:\ [^\W\d_][\w.'’-]*+){{0,2}}:(?={_SPACE}))
      | (?P<emphasis>[*_~`])
      | (?P<brackets>[(\[{{（【〈《])
      | (?P<quotes>[{QUOTES}{_SINGLE}])""",
    re.VERBOSE,
)
_BARE = re.compile(r"[^\W\d_]{2}[\w\s,'’-]*\w[.!?]")  # most sentences: nothing stands around them
_BACK = {
    **dict.fromkeys(QUOTES + _SINGLE, "quotes"),
    **dict.fromkeys("".join(_BRACKETS), "brackets"),
    **dict.fromkeys(_EMPHASIS, "emphasis"),
}
_MARKS, _COLONS = ".!?…。．！？｡؟।॥።", ":;,：；，、،؛-–—"
END_MARKS = frozenset(_MARKS)
_MOST = 8  # quotes, brackets and the like on one side; more of them are no writing


class Peeled(NamedTuple):
    """A text and what stands around it. `before + core + after` is the whole text."""

    before: str
    core: str
    """The sentence, with its mark if that is a usual one."""
    after: str
    marks: str
    """The marks in `after` that end the sentence, which then has none of its own."""
    kinds: frozenset[Kind]


class _Item(NamedTuple):
    kind: Kind | None  # None for white space and a usual mark
    begin: int
    end: int


def peel(text: str, known: Collection[Kind] = (), is_name: Callable[[str], bool] = lambda _: True) -> Peeled:
    """Takes off what stands around a sentence, from outside, up to a kind that is `known`; `is_name` judges speakers.

    >>> peel("- “Stop!!”")[:4], peel("“Stop!”")[:4]
    (('- “', 'Stop', '!!”', '!!'), ('“', 'Stop!', '”', ''))
    >>> peel("“Yes”, he said.")[:4], peel("“No”.")[:4]
    (('', '“Yes”, he said.', '', ''), ('“', 'No', '”.', '.'))
    """
    if _BARE.fullmatch(text):
        return Peeled("", text, "", "", frozenset())
    front = _front(text, known, is_name)
    begin = front[-1].end if front else 0
    back = _back(text, begin, known)
    end = back[-1].begin if back else len(text)
    front, back = _without_partners_inside(text, front, back, begin, end)
    begin, end = front[-1].end if front else 0, back[-1].begin if back else len(text)
    runs = [text[item.begin : item.end] for item in reversed(back)]  # from inside
    first = next((run for run in runs if not run.isspace()), "")
    if _is_usual(first):
        end = text.index(first, end) + 1
        marks = ""
    else:
        marks = next((run for run in runs if run[0] in END_MARKS or run[0] in _COLONS), "")
    kinds: frozenset[Kind] = frozenset(item.kind for item in (*front, *back) if item.kind is not None)
    return Peeled(text[:begin], text[begin:end], text[end:], marks, kinds)


def _is_usual(run: str) -> bool:
    return len(run) == 1 and run in END_MARKS and run != "…"


def _front(text: str, known: Collection[Kind], is_name: Callable[[str], bool]) -> list[_Item]:
    """What stands before the sentence, from outside."""
    items: list[_Item] = []
    place = 0
    while len(items) <= 2 * _MOST and (match := _FRONT.match(text, place)):
        kind = None if match.lastgroup == "space" else match.lastgroup
        if kind in known or (kind == "speaker" and not is_name(match[0][:-1])):
            break
        items.append(_Item(kind, place, match.end()))  # pyright: ignore[reportArgumentType]
        place = match.end()
    return [] if len(items) > 2 * _MOST or place == len(text) else items


def _back(text: str, begin: int, known: Collection[Kind]) -> list[_Item]:
    """What stands behind the sentence that starts at `begin`, from outside."""
    items: list[_Item] = []
    end = len(text)
    while end > begin and len(items) <= 2 * _MOST:
        place, kind = _last(text, begin, end)
        if place == end or kind in known:
            break
        items.append(_Item(kind, place, end))
        end = place
    return [] if len(items) > 2 * _MOST or end == begin else items


def _last(text: str, begin: int, end: int) -> tuple[int, Kind | None]:
    """Where the last item before `end` begins, and its kind; `end` itself if there is none."""
    last = text[end - 1]
    if re.match(_SPACE, last):
        return end - 1, None
    if last in _BACK:
        return end - 1, _BACK[last]  # pyright: ignore[reportReturnType]
    place = end
    while place > begin and text[place - 1] in (_MARKS if last in _MARKS else _COLONS):
        place -= 1
    run = text[place:end]
    if not run or _is_usual(run):
        return place, None
    if last in _COLONS:
        return place, "colon"
    return place, "ellipsis" if set(run) <= set(".…") else "marks"


def _without_partners_inside(
    text: str, front: list[_Item], back: list[_Item], begin: int, end: int
) -> tuple[list[_Item], list[_Item]]:
    """The items without those that belong to the sentence, as in `“Yes”, he said` and `the house (a large one)`, and
    without all that stand inside of one.
    """
    core = text[begin:end]
    opened = [text[item.begin] for item in front if item.kind in ("quotes", "brackets", "emphasis")]
    closed = [text[item.begin] for item in back if item.kind in ("quotes", "brackets", "emphasis")]

    def belongs(item: _Item, is_front: bool) -> bool:
        mark = text[item.begin]
        if mark in _SINGLE and not (set(opened) & set(_SINGLE) and set(closed) & set(_SINGLE)):
            return True  # an apostrophe
        if mark in _INCHES and not is_front and mark not in opened and text[item.begin - 1].isdigit():
            return True
        closes, opens = _unpaired(core, mark)
        return closes if is_front else opens

    def outside(items: list[_Item], is_front: bool) -> Iterator[_Item]:
        for item in items:
            if item.kind in ("quotes", "brackets", "emphasis") and belongs(item, is_front):
                return
            yield item

    kept_front, kept_back = [*outside(front, True)], [*outside(back, False)]
    if len(kept_front) < len(front):  # what stays in the sentence may be closed behind it
        core = text[kept_front[-1].end if kept_front else 0 : end]
        kept_back = [*outside(back, False)]
    return kept_front, kept_back


def _unpaired(core: str, mark: str) -> tuple[bool, bool]:
    """Whether a text closes a pair of such marks that it did not open, and whether it opens one that it does not close.

    >>> _unpaired('Yes" and "no', '"'), _unpaired("the house (a large one", ")")
    ((True, True), (False, True))
    """
    alike = next((marks for marks in (QUOTES, _SINGLE, *_BRACKETS) if mark in marks), mark)
    depth, closes = 0, False
    for match in re.finditer(f"[{re.escape(alike)}]", core):
        place = match.start()
        if alike == _SINGLE and core[max(0, place - 1) : place + 2].replace(match[0], "x").isalpha() and place:
            continue  # an apostrophe
        if alike.index(match[0]) == 0 if alike in _BRACKETS else is_opening(core, place):
            depth += 1
        elif depth:
            depth -= 1
        else:
            closes = True
    return closes, depth > 0


def is_opening(text: str, place: int) -> bool:
    """Whether the quote at a place opens, by what stands beside it, else by what it is: `« oui »`.

    >>> [is_opening("«ja», »nein«", place) for place in (0, 3, 6, 11)]
    [True, False, True, False]
    """
    before, behind = text[place - 1 : place], text[place + 1 : place + 2]
    opens = not before or before.isspace() or before in "([{¿¡—–-"
    closes = not behind or behind.isspace() or behind in ")]}.,!?;:…"
    return text[place] in "«„‹「『〝“‘‚" if opens == closes else opens
