"""Tags in a text, such as `<b>` and `</b>`, `**` around words, and the mark of an accelerator. A model neither reads
nor writes them: they are removed from a source, and placed in its translation around the words that translate those
between them (Zenkel et al. 2021). Memories and catalogues are read without them.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from dragoman.surface.protected import Span, code_in, identifiers_in, quantities_in, spans_matching, without_overlaps
from dragoman.surface.segment import Context, Restored, Segment, Step, TagPair
from dragoman.surface.sentences import BRANCHES
from dragoman.surface.words import places_of_words, spaceless

_ACCELERATOR = r"(?<![\w&_~])(?:[&_](?=[^\W\d_][^\W_]*(?![\w;]))|~(?=[A-Z][^\W_]*(?!\w)))"
_TAG = re.compile(rf"<(/?)([A-Za-z0-9][\w:.-]{{0,50}})(?:\s[^<>]{{0,1000}}?)?(/?)>|(\*\*)|({_ACCELERATOR})")
ACCELERATORS = "&_~"
"""Marks before the letter of a name that opens it from the keyboard."""
_WORD_OR_NUMBER = re.compile(r"[^\W_]+(?:(?<=\d)[.,](?=\d)[^\W_]+)*")
_HINTS = ("<", "**", *ACCELERATORS)
_PARTING = frozenset(
    "blockquote body br dd div dt h1 h2 h3 h4 h5 h6 head hr html li ol p pre table tbody td th tr ul".split()
)
"""Tags of HTML between which a word ends."""
_HTML = _PARTING.union(
    "a abbr b big center code del em font i img ins kbd label q s small span strike strong sub sup tt u wbr".split()
)
"""Tags that are markup even if they are not closed."""
MARKS = tuple(".,;:!?…")
CLOSING = ("", *MARKS, *")]}”»")
"""A single tag before one of these belongs to the word before it."""
TOUCHES_BEFORE, TOUCHES_AFTER, SPACED = "\ud800", "\ud801", "\ud802"
"""Notes at a tag: it touches the text before it, or after it, or has a space there. No text has these characters."""
MOST_TAGS = 200
"""In a text with more tags, they are not markup but code."""

Range = tuple[int, int]
"""Beginning and end of a part of a text."""


class Markup(NamedTuple):
    """A text without its tags."""

    plain: str
    pairs: tuple[TagPair, ...] = ()
    """The outermost pairs of tags, in order."""


def without_tags(text: str, kept: Sequence[Span] = ()) -> Markup:
    """Remove all tags, and the mark of an accelerator if there is only one. Text in `kept` spans stays. So does a tag
    that is neither closed nor HTML, because it usually replaces a word.

    >>> without_tags("See <b>the <i>house</i></b>.<br/>Go").plain, without_tags("Save _As <name>").plain
    ('See the house. Go', 'Save As <name>')
    """
    tags, closes = _tags_in(text, kept)
    if not tags or len(tags) > MOST_TAGS:
        return Markup(text)
    opens = {second: first for first, second in closes.items()}
    ends = dict(tag.span() for tag in tags)
    placed: list[tuple[str, int]] = []
    plain, owed, end = "", "", 0  # the text until `end`, without a space that is still to be written
    for number, tag in enumerate(tags):
        plain, end = plain + text[end : tag.start()], tag.end()
        following = end  # where the next word or space is
        while following in ends and not (number in closes and text.startswith("</", following)):
            following = ends[following]
        before, after = plain[-1:], text[following : following + 1]
        ends_word, begins_word = before.strip() != "", after.strip() != ""
        left = right = space = ""
        if (tag[3] or _name(tag) in _PARTING) and ends_word and begins_word and _are_words(before, after):
            owed = " "  # only for the model: the translation has no space there
        # A tag belongs to the word before it or after it, and the space between the two moves to its other side.
        follows_word = not begins_word and (ends_word or (end < following and before.isspace()))
        if number in opens or (number not in closes and (after in CLOSING or follows_word)):
            if text[tag.start() - 1 : tag.start()].isspace():
                left, plain, owed = SPACED, plain[:-1], before if begins_word and after not in CLOSING else ""
            is_empty = number in opens and placed[opens[number]][1] == len(plain)
            if end == following and owed:
                right, space, owed = TOUCHES_AFTER, owed, ""
            elif end == following and is_empty and before.isspace() and after.isspace():
                right, end = SPACED, end + 1  # an empty pair belongs to the word after it
        else:
            if text[end : end + 1].isspace():
                right, end = SPACED, end + 1
            if ends_word and not begins_word:
                owed = after
            if owed:
                left, plain, owed = TOUCHES_BEFORE, plain + owed, ""
        placed.append((left + tag[0] + right, len(plain)))
        plain += space
    return Markup(plain + text[end:], _pairs(placed, closes, range(len(tags))))


def _pairs(placed: Sequence[tuple[str, int]], closes: Mapping[int, int], numbers: range) -> tuple[TagPair, ...]:
    """Return the outermost pairs among the tags with these numbers; `placed` has each tag and its place."""
    pairs, number = list[TagPair](), numbers.start
    while number < numbers.stop:
        last = closes.get(number, number)
        (tag, begin), (closing, end) = placed[number], placed[last]
        inside = _pairs(placed, closes, range(number + 1, last))
        pairs.append(TagPair(min(begin, end), end, (tag, closing if last > number else ""), inside))
        number = last + 1
    return tuple(pairs)


def _tags_in(text: str, kept: Sequence[Span]) -> tuple[list[re.Match[str]], dict[int, int]]:
    """Return the tags of a text, and a map from the number of a tag to that of the tag that closes it."""
    if not any(hint in text for hint in _HINTS):
        return [], {}
    tags = [
        tag
        for tag in _TAG.finditer(text)
        if not any(span.begin < tag.end() and tag.start() < span.end for span in kept)
    ]
    closes = _closes(tags)
    paired = {*closes, *closes.values()}
    marks = [tag for tag in tags if tag[5]]
    if len(marks) > 1 or any(span.begin <= mark.start() < span.end for mark in marks for span in code_in(text)):
        marks = []
    tags = [tag for number, tag in enumerate(tags) if number in paired or tag in marks or _is_single(tag)]
    return tags, _closes(tags)


def _name(tag: re.Match[str]) -> str:
    return (tag[2] or tag[4] or "").lower()


def _is_single(tag: re.Match[str]) -> bool:
    """Return True if a tag is markup even without a partner."""
    return bool(tag[2] and (tag[1] or tag[3] or _name(tag) in _HTML))


def _are_words(before: str, after: str) -> bool:
    """Return True if one character ends a word and the next begins one, in a script with spaces between words."""
    ends_word = before.isalnum() or before in CLOSING
    return ends_word and after not in CLOSING and not spaceless(before) and not spaceless(after)


def _closes(tags: Sequence[re.Match[str]]) -> dict[int, int]:
    """Map the number of each closed tag to that of the tag that closes it."""
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


def with_tags(markup: Markup, translation: str, links: Collection[tuple[int, int]]) -> str:
    """Return a translation with the tags of its source, placed by links between words.

    A pair of tags is placed around the same words as in the source if both texts have them once; otherwise around the
    words that are linked to those, with as few others as possible. Without such words, it goes around the word nearest
    to the translation of the next or the previous word, so no link or emphasis is lost. Nesting is as in the source.

    >>> with_tags(without_tags("I see <b>the red</b> house."), "Vedo la casa rossa.", [(1, 0), (2, 1), (3, 3), (4, 2)])
    'Vedo <b>la casa rossa</b>.'
    """
    if not markup.pairs:
        return translation
    placing = _Placing(markup.plain, translation, links)
    return _spaced(placing.rendered(markup.pairs, (0, len(markup.plain)), (0, len(translation))))


def with_missing(source: str, translation: str, missing: Collection[str], links: Collection[tuple[int, int]]) -> str:
    """Return a translation with the texts that are `missing`, each before the translation of the next word of the
    source, or after that of the previous word.

    >>> with_missing("Go to {x} now.", "Vai adesso.", ["{x}"], [(0, 0), (5, 1), (6, 2)])
    'Vai {x}adesso.'
    """
    begins = sorted((source.index(text), text) for text in missing)
    pairs = [TagPair(begin, begin + len(text), (text, "")) for begin, text in begins]
    placing = _Placing(source, translation, links)
    return placing.rendered(pairs, (0, len(source)), (0, len(translation)), is_linked=False)


class _Placing:
    """The places of tags in a translation."""

    def __init__(self, source: str, target: str, links: Collection[tuple[int, int]]) -> None:
        self._source, self._target = source, target
        self._words, places = places_of_words(target), places_of_words(source)
        self._begins, self._ends = [begin for begin, _ in places], [end for _, end in places]
        code = without_overlaps(target, code_in(target), identifiers_in(target), quantities_in(target))
        for number, (begin, end) in enumerate(self._words):  # words in code are one word
            last = bisect_left(code, (end,)) - 1
            if last >= 0 and code[last].end > begin:
                self._words[number] = code[last].begin, code[last].end
        self._origin = {word: place for place, word in links}
        self._first_of = dict(sorted(links, reverse=True))
        self._last_of = dict(sorted(links))
        self._linked_words = sorted(self._last_of)

    def rendered(self, pairs: Sequence[TagPair], outer: Range, room: Range, is_linked: bool = True) -> str:
        """Return a part of the target, its `room`, with the pairs in a part of the source, the `outer` one."""
        taken: list[tuple[Range, TagPair]] = []
        spans = [(bisect_right(self._ends, pair.begin), bisect_left(self._begins, pair.end)) for pair in pairs]
        within = [{*range(*span)} for span in spans]  # the words of the source between two tags
        later: list[tuple[int, TagPair]] = []
        for number, pair in enumerate(pairs):
            free = _gaps(room, [place for place, _ in taken])
            place = None
            if is_linked and free == [room] and self._is_same(pair, outer):
                place = _stripped(self._target, room)
            elif is_linked:
                others = set[int]().union(*within[:number], *within[number + 1 :])
                place = self._around_same(pair, free) or self._around_linked(within[number], others, free)
                place = place and self._with_mark(pair, place, free)
            if place:
                taken.append((self._around_initial(pair, place), pair))
            else:
                later.append((number, pair))
        for number, pair in sorted(later, key=lambda item: item[1].begin == item[1].end):
            free = _gaps(room, [place for place, _ in taken])
            place = self._at_neighbour(pair, free)
            place = self._nearest(place, free) if is_linked and within[number] else place
            taken.append((self._around_initial(pair, place), pair))
        parts, end = [], room[0]
        for place, pair in sorted(taken, key=lambda item: (item[0], item[1].begin)):
            inside = self.rendered(pair.inside, (pair.begin, pair.end), place)
            parts += [self._target[end : place[0]], pair.tags[0], inside, pair.tags[1]]
            end = place[1]
        return "".join([*parts, self._target[end : room[1]]])

    def _is_same(self, pair: TagPair, outer: Range) -> bool:
        """Return True if a pair is around all words of the outer part."""
        words = self._source[pair.begin : pair.end].strip()
        return bool(words) and words == self._source[slice(*outer)].strip()

    def _around_initial(self, pair: TagPair, place: Range) -> Range:
        """Return the place of a pair; its first letter if the pair is around that of a word, as for a drop cap."""
        around = self._source[max(0, pair.begin - 1) : pair.end + 1].removeprefix(" ")
        is_initial = pair.end == pair.begin + 1 and len(around) == 2 and around.isalpha()
        return (place[0], min(place[0] + 1, place[1])) if is_initial else place

    def _around_same(self, pair: TagPair, free: Sequence[Range]) -> Range | None:
        """Return the place of the same words, if the translation has them as often as the source; words that occur
        several times only of a pair that divides one, as in "m<sup>2</sup>". The ending of an ordinal number, as in
        "5<sup>th</sup>", may be another one or none.
        """
        first, last = _stripped(self._source, (pair.begin, pair.end))
        begin, end = first, last
        if first >= last:
            return None
        for word in _WORD_OR_NUMBER.finditer(self._source, max(0, begin - 100), end + 100):
            begin = word.start() if word.start() < begin < word.end() else begin
            end = word.end() if word.start() < end < word.end() else end
        words, stem = self._source[begin:end], self._source[begin:first]
        is_ordinal = stem.isdecimal() and end == last and words.removeprefix(stem).isalpha()
        spelling = rf"{stem}[^\W\d_]*+" if is_ordinal else re.escape(words)
        if words[0].isdigit() and words[-1].isdigit():
            spelling = re.sub(r"\\?[.,]", "[.,]", spelling)  # the marks of another language
        pattern = re.compile(rf"(?<![^\W_]){spelling}(?![^\W_])")
        here, places = ([match.span() for match in pattern.finditer(text)] for text in (self._source, self._target))
        is_divided = (begin, end) != (first, last)
        if len(places) != len(here) or (begin, end) not in here or (len(here) > 1 and not is_divided):
            return None
        start, stop = places[here.index((begin, end))]
        place = start + first - begin, stop if is_ordinal else stop - (end - last)
        return place if any(gap[0] <= place[0] and place[1] <= gap[1] for gap in free) else None

    def _around_linked(self, inside: Collection[int], others: Collection[int], free: Sequence[Range]) -> Range | None:
        """Return the place with the most words linked to those `inside`, each word linked elsewhere counting against
        it, and with none linked to `others`, the words in other pairs.
        """
        most, place = 0, None
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
                    most, place = count, (first, end)
        return place

    def _with_mark(self, pair: TagPair, place: Range, free: Sequence[Range]) -> Range:
        """Return the place with the mark at its end inside or outside, as in the source."""
        inside, outside = self._source[pair.begin : pair.end].rstrip()[-1:], self._source[pair.end :][:1]
        begin, end = place
        following = self._target[end : end + 2]
        if inside in MARKS and following[:1] in MARKS and not following[1:].isalnum():
            end = min(end + len(following[:1]), next(last for first, last in free if first <= begin and end <= last))
        elif inside not in MARKS and outside in MARKS and self._target[begin + 1 : end][-1:] == outside:
            end -= len(outside)
        return begin, end

    def _at_neighbour(self, pair: TagPair, free: Sequence[Range]) -> Range:
        """Return the place before the translation of the next word of the source, or after that of the previous one."""
        linked = self._linked_words
        following = linked[bisect_left(linked, bisect_left(self._begins, pair.end)) :][:1]
        previous = linked[: bisect_left(linked, bisect_right(self._ends, pair.begin))][-1:]
        places = [
            *(self._words[self._first_of[word]][0] for word in following),
            *(self._words[self._last_of[word]][1] for word in previous),
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
        """Return the word nearest to a place inside the `free` ranges; the place itself if there is none."""
        inside = (word for word in self._words if any(begin <= word[0] and word[1] <= end for begin, end in free))
        words = (word for word in inside if any(map(str.isalnum, self._target[slice(*word)])))
        return min(words, key=lambda word: max(word[0] - place[0], place[0] - word[1]), default=place)


def _spaced(text: str) -> str:
    """Return the text with the spaces that the notes at its tags require."""
    text = re.sub(f" ?{TOUCHES_BEFORE}|{TOUCHES_AFTER} ?", "", text)
    text = re.sub(rf"(?<=\s){SPACED}+|{SPACED}+(?=\s)|\A{SPACED}+|{SPACED}+\Z", "", text)
    return re.sub(f"{SPACED}+", " ", text)


def _gaps(room: Range, taken: Sequence[Range]) -> list[Range]:
    """Return the parts of the room that are not taken."""
    gaps, begin = list[Range](), room[0]
    for first, end in sorted(taken):
        gaps.append((begin, first))
        begin = end
    return [*gaps, (begin, room[1])]


def _stripped(text: str, place: Range) -> Range:
    """Return the place without the spaces at its ends."""
    part = text[slice(*place)]
    return place[1] - len(part.lstrip()), place[0] + len(part.rstrip())


class Tags(Step):
    """Step that removes markup from a line, and places it in the translation by links between words."""

    def apply(self, segment: Segment, context: Context) -> list[Segment]:
        """Remove all tags except those in protected text, and in a message with branches, which is copied."""
        if not context.rewrites or BRANCHES.search(segment.typed):
            return [segment]
        markup = without_tags(segment.typed, spans_matching(context.protect, segment.typed))
        if not markup.pairs:
            return [segment]
        return [segment._replace(typed=markup.plain, text=markup.plain, pairs=markup.pairs)]

    def restore(self, segment: Segment, translations: Sequence[Restored]) -> Restored:
        """Place the tags in a translation whose words are linked to those of the line."""
        (translation,) = translations
        if not segment.pairs or translation.links is None:
            return translation
        markup = Markup(segment.typed, segment.pairs)
        return translation._replace(text=with_tags(markup, translation.text, sorted(translation.links)))
