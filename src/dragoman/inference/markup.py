"""What a translation gets by its links to the words of its source: pairs of tags, such as `<b>` and `</b>`, around the
words that translate those between them (Zenkel et al. 2021), and what the search left out.

Pairs are taken out of a text before it is translated; so are `**` around words, and the mark of an accelerator.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from dragoman.inference.words import places_of_words
from dragoman.text.protected import code_in

_ACCELERATOR = r"(?<![\w&_~])(?:[&_](?=[^\W\d_][^\W_]*(?![\w;]))|~(?=[A-Z][^\W_]*(?!\w)))"
_TAG = re.compile(rf"<(/?)([A-Za-z][\w:.-]{{0,50}})(?:\s[^<>]{{0,1000}})?(?<!/)>|(\*\*)|({_ACCELERATOR})")
ACCELERATORS = "&_~"
"""Marks before the letter of a name that opens it from the keyboard."""
_HINTS = ("</", "**", *ACCELERATORS)
MOST_PAIRS = 100
"""In a text with more, tags are no markup but code."""

Range = tuple[int, int]
"""The first character of a part of a text, and the one behind its last."""


class Pair(NamedTuple):
    """Two tags and the part of the text between them, counted without tags. Of an accelerator's mark, the other tag is
    empty, and so is the part.
    """

    begin: int
    end: int
    tags: tuple[str, str]
    inside: "tuple[Pair, ...]"


class Markup(NamedTuple):
    """A text without its pairs of tags."""

    plain: str
    pairs: tuple[Pair, ...] = ()
    """Those that stand in no other, in order."""


def without_tags(text: str) -> Markup:
    """Takes out each pair of tags, and the mark of an accelerator if there is one. A tag without its other half, or one
    that ends in `/>`, is code and stays.

    >>> without_tags("See <b>the <i>house</i></b>.").plain, without_tags("Save _As").plain
    ('See the house.', 'Save As')
    """
    tags = [*_TAG.finditer(text)] if any(hint in text for hint in _HINTS) else []
    closes = _closes(tags)
    marks = [place for place, tag in enumerate(tags) if tag[4]]
    if len(marks) == 1 and not any(span.begin <= tags[marks[0]].start() < span.end for span in code_in(text)):
        closes[marks[0]] = marks[0]
    if not closes or len(closes) > MOST_PAIRS:
        return Markup(text)
    parts, length, end = [], 0, 0
    outermost: list[Pair] = []
    opened: list[tuple[int, int, list[Pair]]] = []
    level = outermost
    used = {*closes, *closes.values()}
    for place, tag in enumerate(tags):
        if place not in used:
            continue
        parts.append(text[end : tag.start()])
        length, end = length + len(parts[-1]), tag.end()
        if closes.get(place) == place:
            level.append(Pair(length, length, (tag[0], ""), ()))
        elif place in closes:
            opened.append((place, length, level))
            level = []
        else:
            first, begin, around = opened.pop()
            around.append(Pair(begin, length, (tags[first][0], tag[0]), tuple(level)))
            level = around
    return Markup("".join([*parts, text[end:]]), tuple(outermost))


def with_tags(markup: Markup, translation: str, links: Collection[tuple[int, int]]) -> str:
    """A translation with the tags of its source, given which word of the source each of its words translates.

    A pair stands around the same words as in the source if both texts have them once. Otherwise it stands around the
    words that are linked to those, and as few others as can be; where there are none, it stands empty beside what
    translates the next word or the last. Pairs are nested as in the source.

    >>> with_tags(without_tags("I see <b>the red</b> house."), "Vedo la casa rossa.", [(1, 0), (2, 1), (3, 3), (4, 2)])
    'Vedo <b>la casa rossa</b>.'
    """
    if not markup.pairs:
        return translation
    return _Placing(markup.plain, translation, links).rendered(
        markup.pairs, (0, len(markup.plain)), (0, len(translation))
    )


def with_missing(source: str, translation: str, missing: Collection[str], links: Collection[tuple[int, int]]) -> str:
    """A translation with what it lacks of its source: before what translates the next word, or behind what translates
    the last.

    >>> with_missing("Go to {x} now.", "Vai adesso.", ["{x}"], [(0, 0), (5, 1), (6, 2)])
    'Vai {x}adesso.'
    """
    begins = sorted((source.index(one), one) for one in missing)
    pairs = [Pair(begin, begin + len(one), (one, ""), ()) for begin, one in begins]
    placing = _Placing(source, translation, links)
    return placing.rendered(pairs, (0, len(source)), (0, len(translation)), is_linked=False)


class _Placing:
    """Finds the places of tags in a translation."""

    def __init__(self, source: str, target: str, links: Collection[tuple[int, int]]) -> None:
        self._source, self._target = source, target
        self._source_words, self._words = places_of_words(source), places_of_words(target)
        code = code_in(target)
        for number, (begin, end) in enumerate(self._words):  # what stands in code is no word of its own
            last = bisect_left(code, (end,)) - 1
            if last >= 0 and code[last].end > begin:
                self._words[number] = code[last].begin, code[last].end
        self._origin = {word: place for place, word in links}
        self._first_of = dict(sorted(links, reverse=True))
        self._last_of = dict(sorted(links))

    def rendered(self, pairs: Sequence[Pair], outer: Range, room: Range, is_linked: bool = True) -> str:
        """The target in this room, with the pairs that stand in this part of the source."""
        taken: list[tuple[Range, Pair]] = []
        within = [self._words_in(pair) for pair in pairs]
        for number, pair in enumerate(pairs):
            free = _gaps(room, [place for place, _ in taken])
            place = None
            if is_linked and free == [room] and self._is_same(pair, outer):
                place = _stripped(self._target, room)
            elif is_linked:
                others = set[int]().union(*within[:number], *within[number + 1 :])
                place = self._same(pair, free) or self._linked(within[number], others, free)
            taken.append((place or self._beside(pair, free), pair))
        parts, end = [], room[0]
        for place, pair in sorted(taken, key=lambda one: (one[0], one[1].begin)):
            inside = self.rendered(pair.inside, (pair.begin, pair.end), place)
            parts += [self._target[end : place[0]], pair.tags[0], inside, pair.tags[1]]
            end = place[1]
        return "".join([*parts, self._target[end : room[1]]])

    def _words_in(self, pair: Pair) -> set[int]:
        """The words of the source that stand between two tags."""
        return {n for n, (begin, end) in enumerate(self._source_words) if begin < pair.end and pair.begin < end}

    def _is_same(self, pair: Pair, outer: Range) -> bool:
        """Whether a pair stands around all words of the outer one, or of the text."""
        words = self._source[pair.begin : pair.end].strip()
        return bool(words) and words == self._source[slice(*outer)].strip()

    def _same(self, pair: Pair, free: Sequence[Range]) -> Range | None:
        """Around the same words, if source and translation have them once."""
        inside = self._source[pair.begin : pair.end]
        words, begin = inside.strip(), pair.end - len(inside.lstrip())
        before, behind = self._source[begin - 1 : begin], self._source[begin + len(words) :][:1]
        starts, ends = ("" if before.isalnum() else r"(?<!\w)"), ("" if behind.isalnum() else r"(?!\w)")
        pattern = f"{starts}{re.escape(words)}{ends}"
        found = [match.span() for match in re.finditer(pattern, self._target)] if words else []
        if len(found) != 1 or self._source.count(words) != 1:
            return None
        return found[0] if any(first <= found[0][0] and found[0][1] <= last for first, last in free) else None

    def _linked(self, inside: Collection[int], others: Collection[int], free: Sequence[Range]) -> Range | None:
        """Around as many words that are linked to those `inside` as can be, with as few that are linked to others, and
        with none of `others`, which stand in other pairs.
        """
        most, found = 0, None
        for room in free:
            count, first = -1, 0
            for number in range(bisect_left(self._words, (room[0],)), len(self._words)):
                (begin, end), origin = self._words[number], self._origin.get(number)
                if end > room[1]:
                    break
                if origin is None:
                    continue
                if origin not in inside:
                    count = -1 if origin in others else max(-1, count - 1)
                    continue
                if count < 0:
                    count, first = 0, begin
                count += 1
                if count >= most:
                    most, found = count, (first, end)
        return found

    def _beside(self, pair: Pair, free: Sequence[Range]) -> Range:
        """Nowhere else: before what translates the next word of the source, or behind what translates the last."""
        behind = [n for n, (begin, _) in enumerate(self._source_words) if begin >= pair.end and n in self._first_of]
        before = [n for n, (_, end) in enumerate(self._source_words) if end <= pair.begin and n in self._last_of]
        places = [
            *(self._words[self._first_of[n]][0] for n in behind[:1]),
            *(self._words[self._last_of[n]][1] for n in before[-1:]),
        ]
        is_mark = pair.tags[0] in ACCELERATORS
        if is_mark:
            places += [begin for begin, _ in self._words]
        allowed = [
            place
            for place in places
            if any(begin <= place <= end for begin, end in free)
            and (not is_mark or self._target[place : place + 1].isalpha())
        ]
        place = allowed[0] if allowed else free[-1][1]
        return place, place


def _closes(tags: Sequence[re.Match[str]]) -> dict[int, int]:
    """The number of the tag that closes each one that is closed."""
    opened, closes = list[tuple[str, int]](), dict[int, int]()
    count = Counter[str]()
    for place, tag in enumerate(tags):
        name = tag[2] or tag[3]
        if not name:
            continue
        if tag[1] or (tag[3] and count[name]):
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


def _gaps(room: Range, taken: Sequence[Range]) -> list[Range]:
    """What is left of the room."""
    gaps, begin = list[Range](), room[0]
    for first, end in sorted(taken):
        gaps.append((begin, first))
        begin = end
    return [*gaps, (begin, room[1])]


def _stripped(text: str, place: Range) -> Range:
    """The place without the spaces at its ends."""
    part = text[slice(*place)]
    return place[1] - len(part.lstrip()), place[0] + len(part.rstrip())
