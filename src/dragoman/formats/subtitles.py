"""Subtitles, SRT and WebVTT: a sentence is translated as a whole over its lines and cues, and its translation is
divided among them by their lengths. If in doubt, a cue is a separate text, because a model may drop one of two
sentences in a text.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import Literal, NamedTuple

from dragoman.errors import DataError
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Document, Left, Where
from dragoman.formats.inline import Inline, InlinePart, trimmed, unescaped
from dragoman.formats.reading import check_languages, decoded, other_language
from dragoman.surface.sentences import has_words

_BLANK, _ARROW, _TIME = r"[^\S\n]*+", r"(?:[-–—]{1,3} ?>|→)", r"\d[\d:.,; \t]{0,40}+"
_BEFORE = rf"(?:\A|^{_BLANK}\n)"
_TIMES = (
    rf"(?:{_BEFORE}(?!{_BLANK}$|.*{_ARROW})(?P<name>.++)\n|^{_BLANK}\d++{_BLANK}\n|^)[^\w\n]*+"
    rf"(?P<begin>{_TIME}){_ARROW}{_BLANK}(?P<end>{_TIME})(?:[A-Za-z]\w*+[:=]\S*+{_BLANK})*+(?P<rest>.*)"
)
"""The number or name of a cue, its times as any program writes them, its settings, and the rest of their line."""
_DAMAGED = rf"(?P<damaged>{_BEFORE}{_BLANK}\d++{_BLANK}\n.*-->|^[^\w\n]{{0,9}}[\dOoIl]{{1,3}} ?: ?\w\w\b.{{0,20}}?-->)"
_ASIDE = (
    rf"{_BEFORE}(?P<aside>{_BLANK}WEBVTT(?!\S).*(?:\n(?!{_BLANK}$|.*{_ARROW}).++)*+"
    rf"|(?:NOTE(?!\S)|(?:STYLE|REGION){_BLANK}$).*(?:\n(?!{_BLANK}$).++)*+)"
)
"""The header of WebVTT; a comment, style or region in it."""
_LANGUAGE = re.compile(
    rf"\A\s*WEBVTT(?:.*+\n(?!{_BLANK}$|.*{_ARROW}))*?.*?\blang(?:uage)?[ \t]*+[:=][ \t]*+(\w.*?){_BLANK}$", re.M | re.I
)
"""The language that the header of WebVTT names."""
_CLOCK = re.compile(r"(?:(?:(\d+)\s*:\s*)?(\d+)\s*:\s*)?(\d+)\D*(\d*)")
_ROW = re.compile(r"\S[^\r\n]*+")
_READING = r"<rt\b[^<>]*>(?P<reading>(?:[^<\r\n]|<(?!/?(?:rt|ruby)\b))*+)(?:</rt>)?"
_TAG = re.compile(rf"({_READING})|(</[^<>]*>)|(<[^<>]*>)|\{{[^{{}}]*\}}", re.IGNORECASE)
_KINDS: Mapping[int | None, Literal["after", "close", "open", "single"]] = {1: "after", 3: "close", 4: "open"}
"""Kinds of markup by the group of `_TAG`; others are single."""
_MOMENT = re.compile(r"<[\d:.]+>")
_BEGINNING = re.compile(r"[-–—♪♫#(\[*]")
_END = re.compile(r"[.!?…:。！？♪♫)\]][\"'”’»]*\Z")
_CLAUSE_END, _SOUND_END = tuple(",;،、，；"), tuple(")]♪♫")
_ADJOINING = re.compile(r"</(\w+)><\1>")
_PIECE = re.compile(rf"(?:{_READING}|<[^<>]*>|[^ ])+", re.IGNORECASE)
_MOST_LINES, _LONGEST_PAUSE = 12, 2.0
"""Lines and seconds between cues after which no sentence goes on."""
_SHORT = 1.0
"""Seconds below which a cue of one or two words may be a piece of a sentence."""
_MARKED = 0.3
"""Least share of cues that end with a mark in a file that marks the ends of its sentences."""
NOTHING = "…"
"""The text of a cue that no word of its sentence is left for."""


class SubtitleLine(NamedTuple):
    """A line of a cue that holds more than markup, without the spaces and markup around all of it."""

    cue: re.Match[str]
    """The times of its cue."""
    where: Where
    parts: Sequence[InlinePart[str]]
    words: str
    initial: str
    before: str
    around: str
    """The markup before its words, and before the first words of the cue."""


class SubtitleSentence(NamedTuple):
    """Lines that are translated as one text."""

    lines: Sequence[SubtitleLine]
    inline: Inline[str]

    def divided(self, translation: str) -> Iterator[str]:
        """Yield the words for each line: as large a share of the translation as the line is of its sentence."""
        translation = translation if _TAG.sub("", translation).strip() else NOTHING
        written = "".join(self.inline.parts(translation, lambda _: False))
        times = filter(_MOMENT.fullmatch, self.inline.markup.values())  # of words, which go up whatever their order
        pieces = [piece[0] for piece in _PIECE.finditer(_MOMENT.sub(lambda _: next(times), written))]
        cues = [[len(line.words) + 1 for line in lines] for _, lines in groupby(self.lines, lambda line: line.cue)]
        for sizes, shown in zip(cues, _divided(pieces, [*map(sum, cues)]), strict=True):
            yield from map(" ".join, _divided(shown or [NOTHING], sizes))


class Subtitles(Document):
    """A file of subtitles. All but the text of its cues stays as it is, to the byte."""

    def __init__(self, content: str, encoding: str, groups: Sequence[Sequence[SubtitleLine]]) -> None:
        super().__init__()
        self._content, self._encoding = content, encoding
        space = InlinePart("words", " ", " ")
        self._sentences = [
            SubtitleSentence(group, Inline.from_parts([part for line in group for part in (*line.parts, space)]))
            for group in groups
            if any(has_words(line.words) for line in group)
        ]
        self.texts = [sentence.inline.text for sentence in self._sentences]

    def place(self, number: int) -> str:
        return self.line_of(self._content, self._sentences[number].lines[0].where)

    def translated(self, translations: Sequence[str]) -> bytes:
        parts, end = list[str](), 0
        for sentence, translation in zip(self._sentences, translations, strict=True):
            check_cancelled()
            if translation == sentence.inline.text:
                continue
            for line, words in zip(sentence.lines, sentence.divided(translation), strict=True):
                between = self._content[end : line.where[0]]
                if not words:  # the line goes, and its markup stays
                    between = _ADJOINING.sub("", "".join(tag[0] for tag in _TAG.finditer(between)))
                parts += [between, words]
                end = line.where[1]
        return "".join([*parts, self._content[end:]]).encode(self._encoding)


def _divided(pieces: Sequence[str], sizes: Sequence[int]) -> Iterator[Sequence[str]]:
    """Yield the pieces for each part, in proportion to its size. No part gets two pieces while another has none."""
    ends = [*accumulate(len(piece) + 1 for piece in pieces)]
    first, total = 0, sum(sizes)
    for following, size in zip(reversed(range(len(sizes))), accumulate(sizes), strict=True):
        wanted = size * ends[-1] / total if ends else 0
        last = min(first + 1, len(pieces))
        while last < len(pieces) - following and abs(ends[last] - wanted) <= abs(ends[last - 1] - wanted):
            last += 1
        yield pieces[first:last]
        first = last


def _grouped(lines: Sequence[SubtitleLine], language: str) -> list[list[SubtitleLine]]:
    """Return the lines of each sentence. A line that rolls up or grows, from one of the cue before, is one alone."""
    ends = [words for words in {line.cue: line.words for line in lines}.values() if has_words(words)]
    marked = sum(1 for words in ends if _END.search(words) and not words.endswith(_SOUND_END))
    is_marked, groups, shown = marked >= _MARKED * len(ends), [list[SubtitleLine]()], list[str]()
    for _, cue in groupby(lines, lambda line: line.cue):
        before, shown = tuple(shown[-_MOST_LINES:]), list[str]()
        for line in cue:
            shown.append(f"{line.words} ")
            is_repeated = shown[-1].startswith(before)
            if groups[-1] and (is_repeated or not _goes_on(groups[-1], line, is_marked, language)):
                groups.append([])
            groups[-1].append(line)
            groups += [[]] if is_repeated else []
    return groups


def _goes_on(lines: Sequence[SubtitleLine], line: SubtitleLine, is_marked: bool, language: str) -> bool:
    """Return True if a sentence of these lines probably goes on in the next line.

    In a file that marks its ends, a cue that begins with a capital letter begins a sentence too; not in German, nor in
    capitals. In other files, only one that begins with a small letter goes on, after a capital or a short cue.
    """
    last = lines[-1]
    if len(lines) == _MOST_LINES or _BEGINNING.match(line.words) or _END.search(last.words):
        return False
    if line.cue != lines[0].cue and any(part.kind != "words" for some in (*lines, line) for part in some.parts):
        return False
    is_inside = last.words.endswith(_CLAUSE_END)
    if line.cue == last.cue:
        return not line.before.startswith("<v") and (is_inside or is_marked or not line.initial.isupper())
    pause = _seconds(line.cue["begin"]) - _seconds(last.cue["end"])
    if pause > _LONGEST_PAUSE or line.around != last.around or not (has_words(last.words) and has_words(line.words)):
        return False
    if is_marked or is_inside:
        is_capitals = last.words.isupper() and line.words.isupper()
        return is_inside or is_capitals or language.split("-")[0] == "de" or not line.initial.isupper()
    is_short = len(last.words.split()) <= 2 and _seconds(last.cue["end"]) - _seconds(last.cue["begin"]) < _SHORT
    return line.initial.islower() and (is_short or lines[0].initial.isupper())


def _lines(content: str, begin: int, end: int, cue: re.Match[str]) -> list[SubtitleLine]:
    """Return the lines of a cue between two places of a file."""
    lines = list[SubtitleLine]()
    for row in _ROW.finditer(content, begin, end):
        check_cancelled()
        parts = _parts(row[0])
        first, last = trimmed(parts) if len(parts) > 1 else (0, 1)
        before, after = ("".join(part.piece for part in some) for some in (parts[:first], parts[last:]))
        inner = row[0][len(before) : len(row[0]) - len(after)]
        place = row.start() + len(before) + len(inner) - len(inner.lstrip())
        if words := "".join(part.words for part in parts[first:last]).strip():
            where, initial = (place, place + len(inner.strip())), next(filter(str.isalnum, words), "")
            around = lines[0].around if lines else before.strip()
            lines.append(SubtitleLine(cue, where, parts[first:last], words, initial, before.strip(), around))
    return lines


def _parts(line: str) -> list[InlinePart[str]]:
    parts, end = list[InlinePart[str]](), 0
    for tag in _TAG.finditer(line):
        words = line[end : tag.start()]
        parts += [InlinePart("words", words, unescaped(words)), InlinePart(_KINDS.get(tag.lastindex, "single"), tag[0])]
        end = tag.end()
    return [*parts, InlinePart("words", line[end:], unescaped(line[end:]))]


def _seconds(time: str) -> float:
    """Return a time such as 01:02:03,500, 2:03.5, 01:02:03:500 or 5 in seconds."""
    hours, minutes, seconds, fraction = _CLOCK.findall(time)[0]
    return 3600 * float(hours or 0) + 60 * float(minutes or 0) + float(seconds) + float(f"0.{fraction}")


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Subtitles:
    """Return a file of subtitles and its sentences. A cue goes on to the next times, also over blank lines.

    Raises:
        DataError: it has no times, or some that cannot be read; or it names another language.
    """
    text, encoding = decoded(content, path)
    plain = text.replace("\r\n", " \n").replace("\r", "\n").replace("\ufeff", " ")
    is_vtt = plain.lstrip().startswith("WEBVTT")
    if named := _LANGUAGE.match(plain):
        check_languages(path, named[1], None, languages)
        if other_language(named[1], languages[1]) and len(named[1].partition("-")[0]) < 4:
            text, plain = (some[: named.start(1)] + languages[1] + some[named.end(1) :] for some in (text, plain))
    marks = [*re.finditer(f"{'' if is_vtt else '(?!)'}{_ASIDE}|{_TIMES}|{_DAMAGED}", plain, re.M)]
    marks = [mark for mark in marks if not mark["rest"] or ":" in mark["begin"] or not has_words(mark["rest"])]
    if not any(mark["begin"] for mark in marks):
        raise DataError(f"{path} is no file of subtitles: no line has times, such as 00:00:01,000 --> 00:00:02,000")
    breaks = [line_end.start() for line_end in re.finditer("\n", plain)]
    begins = [mark.start() for mark in marks] + [len(text)]
    lines, stray = list[SubtitleLine](), _lines(text, 0, begins[0], marks[0])
    for mark, end in zip(marks, begins[1:], strict=True):
        if mark["damaged"]:
            number = plain.count("\n", 0, mark.end()) + 1
            raise DataError(f"{path}, line {number:,}: its times cannot be read; write 00:00:01,000 --> 00:00:02,000")
        (lines if mark["begin"] else stray).extend(_lines(text, mark.end(), end, mark))
    subtitles = Subtitles(text, encoding, _grouped(lines, languages[0]))
    left = [
        *(("it says how a word is read", mark.span("reading")) for mark in _TAG.finditer(text) if mark["reading"]),
        *(("it belongs to no cue", line.where) for line in stray),
        *(("it is on the line of the times", mark.span("rest")) for mark in marks),
        *(("it is where a cue has its number", mark.span("name")) for mark in marks if not is_vtt),
        *(("it is in a comment that holds -->", mark.span("aside")) for mark in marks if "-->" in mark[0]),
    ]
    left = [(reason, begin) for reason, (begin, end) in left if has_words(text[begin:end])]
    if named and len(named[1].partition("-")[0]) > 3:
        subtitles.notes.append(f"the header still says that it is in {named[1][:50]}")
    subtitles.left += [Left(reason, f"line {bisect_left(breaks, begin) + 1:,}") for reason, begin in left]
    return subtitles
