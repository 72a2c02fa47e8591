"""Tags in a text, such as `<b>` and `</b>`, `**` around words, and the mark of an accelerator. A model neither reads
nor writes them: memories and catalogues are read without them, and a translation gets those of its source afterwards
(`inference.markup`).
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.languages import is_spaceless
from dragoman.surface.protected import Span, code_in

_ACCELERATOR = r"(?<![\w&_~])(?:[&_](?=[^\W\d_][^\W_]*(?![\w;]))|~(?=[A-Z][^\W_]*(?!\w)))"
_TAG = re.compile(rf"<(/?)([A-Za-z0-9][\w:.-]{{0,50}})(?:\s[^<>]{{0,1000}}?)?(/?)>|(\*\*)|({_ACCELERATOR})")
ACCELERATORS = "&_~"
"""Marks before the letter of a name that opens it from the keyboard."""
_HINTS = ("<", "**", *ACCELERATORS)
_PARTING = frozenset(
    "blockquote body br dd div dt h1 h2 h3 h4 h5 h6 head hr html li ol p pre table tbody td th tr ul".split()
)
"""Tags of HTML between which a word ends."""
_HTML = _PARTING.union(
    "a abbr b big center code del em font i img ins kbd label q s small span strike strong sub sup tt u wbr".split()
)
"""Those that are markup also where nothing closes them."""
MARKS = tuple(".,;:!?…")
CLOSING = ("", *MARKS, *")]}”»")
"""What a tag alone stands behind the word before for."""
TOUCHES_BEFORE, TOUCHES_BEHIND, SPACED = "\ud800", "\ud801", "\ud802"
"""Beside a tag that touches what stands there, or has a space there. No text has these characters."""
MOST_TAGS = 200
"""In a text with more, tags are no markup but code."""

Range = tuple[int, int]
"""The first character of a part of a text, and the one behind its last."""


class Pair(NamedTuple):
    """Two tags and the part of the text between them, counted without tags. Of a tag that stands alone, and of an
    accelerator's mark, the other tag is empty, and so is the part.
    """

    begin: int
    end: int
    tags: tuple[str, str]
    inside: "tuple[Pair, ...]" = ()


class Markup(NamedTuple):
    """A text without its tags."""

    plain: str
    pairs: tuple[Pair, ...] = ()
    """Those that stand in no other, in order."""


def without_tags(text: str, kept: Sequence[Span] = ()) -> Markup:
    """Takes out all tags, and the mark of an accelerator if there is one. What stands in spans that are `kept` stays,
    and so does a tag that is not closed and none of HTML: it mostly stands for a word.

    >>> without_tags("See <b>the <i>house</i></b>.<br/>Go").plain, without_tags("Save _As <name>").plain
    ('See the house. Go', 'Save As <name>')
    """
    tags, closes = _tags_in(text, kept)
    if not tags or len(tags) > MOST_TAGS:
        return Markup(text)
    closing = {*closes.values()}
    ends = dict(tag.span() for tag in tags)
    plain, owed, end = "", "", 0
    level, opened = list[Pair](), list[tuple[str, int, list[Pair]]]()
    for place, tag in enumerate(tags):
        plain, end = plain + text[end : tag.start()], tag.end()
        following = end
        while following in ends and not (place in closes and text.startswith("</", following)):
            following = ends[following]
        before, behind = plain[-1:], text[following : following + 1]
        has_space = not before.strip(), not behind.strip()
        may_part = bool(tag[3]) or _name(tag) in _PARTING
        is_alone = place not in closes and place not in closing
        left = right = after = ""
        # The space is for the model; the translation has none there.
        owed = " " if may_part and not any(has_space) and _are_words(before, behind) else owed
        # A tag belongs to the word before it, or to the one behind it, and takes the space between both with it.
        if place in closing or (is_alone and (behind in CLOSING or has_space == (False, True))):
            if text[tag.start() - 1 : tag.start()].isspace():
                left, plain, owed = SPACED, plain[:-1], "" if has_space[1] or behind in CLOSING else before
            if end == following and owed:
                right, after, owed = TOUCHES_BEHIND, owed, ""
            elif end == following and opened and opened[-1][1] == len(plain) and before.isspace() and behind.isspace():
                right, end = SPACED, end + 1  # nothing stands between the tags, so they belong to the word behind them
        else:
            if text[end : end + 1].isspace():
                right, end = SPACED, end + 1
            if owed := behind if has_space == (False, True) else owed:
                left, plain, owed = TOUCHES_BEFORE, plain + owed, ""
        written = left + tag[0] + right
        if is_alone:
            level.append(Pair(len(plain), len(plain), (written, "")))
        elif place in closes:
            opened.append((written, len(plain), level))
            level = []
        else:
            first, begin, around = opened.pop()
            around.append(Pair(min(begin, len(plain)), len(plain), (first, written), tuple(level)))
            level = around
        plain += after
    return Markup(plain + text[end:], tuple(level))


def _tags_in(text: str, kept: Sequence[Span]) -> tuple[list[re.Match[str]], dict[int, int]]:
    """The tags of a text, and the number of the tag that closes each one that is closed."""
    if not any(hint in text for hint in _HINTS):
        return [], {}
    found = [
        tag for tag in _TAG.finditer(text) if not any(one.begin < tag.end() and tag.start() < one.end for one in kept)
    ]
    closes = _closes(found)
    paired = {*closes, *closes.values()}
    marks = [tag for tag in found if tag[5]]
    if len(marks) > 1 or any(span.begin <= mark.start() < span.end for mark in marks for span in code_in(text)):
        marks = []
    tags = [tag for number, tag in enumerate(found) if number in paired or tag in marks or _is_single(tag)]
    return tags, _closes(tags)


def _name(tag: re.Match[str]) -> str:
    return (tag[2] or tag[4] or "").lower()


def _is_single(tag: re.Match[str]) -> bool:
    """Whether a tag of no pair is markup all the same."""
    return bool(tag[2] and (tag[1] or tag[3] or _name(tag) in _HTML))


def _are_words(before: str, behind: str) -> bool:
    """Whether these characters end a word and begin the next, in a script that puts spaces between words."""
    ends_word = before.isalnum() or before in CLOSING
    return ends_word and behind not in CLOSING and not is_spaceless(before) and not is_spaceless(behind)


def _closes(tags: Sequence[re.Match[str]]) -> dict[int, int]:
    """The number of the tag that closes each one that is closed."""
    opened, closes = list[tuple[str, int]](), dict[int, int]()
    count = Counter[str]()
    for place, tag in enumerate(tags):
        name = _name(tag)
        if not name or tag[3]:
            continue
        if tag[1] or (tag[4] and count[name]):
            while count[name]:
                last, first = opened.pop()
                count[last] -= 1
                if last == name:
                    closes[first] = place
                    break
        else:
            opened.append((name, place))
            count[name] += 1
    return closes
