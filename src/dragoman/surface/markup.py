"""What a translation gets by its links to the words of its source: tags, such as `<b>` and `</b>`, around the words
that translate those between them (Zenkel et al. 2021), and what the search left out. `text.tags` takes them out.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence

from dragoman.surface.protected import apart, code_in, identifiers_in, quantities_in
from dragoman.surface.tags import (
    ACCELERATORS,
    CLOSING,
    MARKS,
    SPACED,
    TOUCHES_BEFORE,
    TOUCHES_BEHIND,
    Markup,
    Pair,
    Range,
)
from dragoman.surface.words import places_of_words


def with_tags(markup: Markup, translation: str, links: Collection[tuple[int, int]]) -> str:
    """A translation with the tags of its source, given which word of the source each of its words translates.

    A pair stands around the same words as in the source if both texts have them once. Otherwise it stands around the
    words that are linked to those, and as few others as can be; where there are none, around the word nearest to what
    translates the next word or the last, so that no link or emphasis is lost. Pairs are nested as in the source.

    >>> from dragoman.surface.tags import without_tags
    >>> with_tags(without_tags("I see <b>the red</b> house."), "Vedo la casa rossa.", [(1, 0), (2, 1), (3, 3), (4, 2)])
    'Vedo <b>la casa rossa</b>.'
    """
    if not markup.pairs:
        return translation
    placing = _Placing(markup.plain, translation, links)
    return _spaced(placing.rendered(markup.pairs, (0, len(markup.plain)), (0, len(translation))))


def with_missing(source: str, translation: str, missing: Collection[str], links: Collection[tuple[int, int]]) -> str:
    """A translation with what it lacks of its source: before what translates the next word, or behind what translates
    the last.

    >>> with_missing("Go to {x} now.", "Vai adesso.", ["{x}"], [(0, 0), (5, 1), (6, 2)])
    'Vai {x}adesso.'
    """
    begins = sorted((source.index(one), one) for one in missing)
    pairs = [Pair(begin, begin + len(one), (one, "")) for begin, one in begins]
    placing = _Placing(source, translation, links)
    return placing.rendered(pairs, (0, len(source)), (0, len(translation)), is_linked=False)


class _Placing:
    """Finds the places of tags in a translation."""

    def __init__(self, source: str, target: str, links: Collection[tuple[int, int]]) -> None:
        self._source, self._target = source, target
        self._words, places = places_of_words(target), places_of_words(source)
        self._begins, self._ends = [begin for begin, _ in places], [end for _, end in places]
        code = apart(target, code_in(target), identifiers_in(target), quantities_in(target))
        for number, (begin, end) in enumerate(self._words):  # what stands in code is no word of its own
            last = bisect_left(code, (end,)) - 1
            if last >= 0 and code[last].end > begin:
                self._words[number] = code[last].begin, code[last].end
        self._origin = {word: place for place, word in links}
        self._first_of = dict(sorted(links, reverse=True))
        self._last_of = dict(sorted(links))
        self._linked_words = sorted(self._last_of)

    def rendered(self, pairs: Sequence[Pair], outer: Range, room: Range, is_linked: bool = True) -> str:
        """The target in this room, with the pairs that stand in this part of the source."""
        taken: list[tuple[Range, Pair]] = []
        within = [self._words_in(pair) for pair in pairs]
        later: list[tuple[int, Pair]] = []
        for number, pair in enumerate(pairs):
            free = _gaps(room, [place for place, _ in taken])
            place = None
            if is_linked and free == [room] and self._is_same(pair, outer):
                place = _stripped(self._target, room)
            elif is_linked:
                others = set[int]().union(*within[:number], *within[number + 1 :])
                place = self._same(pair, free) or self._linked(within[number], others, free)
                place = place and self._with_mark(pair, place, free)
            if place:
                taken.append((place, pair))
            else:
                later.append((number, pair))
        for number, pair in sorted(later, key=lambda one: one[1].begin == one[1].end):
            free = _gaps(room, [place for place, _ in taken])
            place = self._beside(pair, free)
            taken.append((self._nearest(place, free) if is_linked and within[number] else place, pair))
        parts, end = [], room[0]
        for place, pair in sorted(taken, key=lambda one: (one[0], one[1].begin)):
            inside = self.rendered(pair.inside, (pair.begin, pair.end), place)
            parts += [self._target[end : place[0]], pair.tags[0], inside, pair.tags[1]]
            end = place[1]
        return "".join([*parts, self._target[end : room[1]]])

    def _words_in(self, pair: Pair) -> set[int]:
        """The words of the source that stand between two tags."""
        return {*range(bisect_right(self._ends, pair.begin), bisect_left(self._begins, pair.end))}

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
        literal = re.escape(words)
        if words[:1].isdigit() and words[-1:].isdigit():
            literal = re.sub(r"\\?[.,]", "[.,]", literal)  # the marks of another language
        pattern = f"{starts}{literal}{ends}"
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

    def _with_mark(self, pair: Pair, place: Range, free: Sequence[Range]) -> Range:
        """The place with the mark at its end inside or outside, as in the source."""
        inside, outside = self._source[pair.begin : pair.end].rstrip()[-1:], self._source[pair.end :][:1]
        begin, end = place
        following = self._target[end : end + 2]
        if inside in MARKS and following[:1] in MARKS and not following[1:].isalnum():
            end = min(end + len(following[:1]), next(last for first, last in free if first <= begin and end <= last))
        elif inside not in MARKS and outside in MARKS and self._target[begin + 1 : end][-1:] == outside:
            end -= len(outside)
        return begin, end

    def _beside(self, pair: Pair, free: Sequence[Range]) -> Range:
        """Nowhere else: before what translates the next word of the source, or behind what translates the last."""
        linked = self._linked_words
        behind = linked[bisect_left(linked, bisect_left(self._begins, pair.end)) :][:1]
        before = linked[: bisect_left(linked, bisect_right(self._ends, pair.begin))][-1:]
        places = [
            *(self._words[self._first_of[n]][0] for n in behind),
            *(self._words[self._last_of[n]][1] for n in before),
        ]
        if pair.begin == pair.end and self._source[pair.end :][:1].strip() in CLOSING and self._source[: pair.begin]:
            places.reverse()
        is_mark = pair.tags[0] in ACCELERATORS
        if is_mark:
            places += [begin for begin, _ in self._words]
        allowed = [
            place
            for place in places
            if any(begin <= place <= end for begin, end in free)
            and (not is_mark or self._target[place : place + 1].isalpha())
        ]
        near = places[0] if places else free[-1][1]
        edges = sorted((edge for gap in free for edge in gap), key=lambda edge: abs(edge - near))
        place = allowed[0] if allowed else edges[0]
        return place, place

    def _nearest(self, place: Range, free: Sequence[Range]) -> Range:
        """Return the word nearest to a place, of those that no pair has; the place if there is none. Marks are none."""
        inside = (word for word in self._words if any(begin <= word[0] and word[1] <= end for begin, end in free))
        words = (word for word in inside if any(map(str.isalnum, self._target[slice(*word)])))
        return min(words, key=lambda word: max(word[0] - place[0], place[0] - word[1]), default=place)


def _spaced(text: str) -> str:
    """The text with the spaces that its tags ask for."""
    text = re.sub(f" ?{TOUCHES_BEFORE}|{TOUCHES_BEHIND} ?", "", text)
    text = re.sub(rf"(?<=\s){SPACED}+|{SPACED}+(?=\s)|\A{SPACED}+|{SPACED}+\Z", "", text)
    return re.sub(f"{SPACED}+", " ", text)


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
