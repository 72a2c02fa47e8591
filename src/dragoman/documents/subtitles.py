"""Subtitles, SRT and WebVTT: a sentence that goes on over lines and cues is translated as one, and dealt out to them
again by their lengths.
"""

import re
from collections.abc import Sequence
from io import StringIO
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple

from dragoman.documents.document import Document, Where, line_of
from dragoman.documents.inline import Inline, Part, trimmed, unescaped
from dragoman.documents.reading import decoded
from dragoman.errors import DataError, optional
from dragoman.inference.sentences import has_words

_TAG = re.compile(r"(</[^<>]*>)|(<[^<>]*>)|(\{[^{}]*\})")
_BEGINNING = re.compile(r"[-–—♪♫#(\[*]")
_END = re.compile(r"[.!?…:。！？♪♫)\]][\"'”’»]*\Z")
_ADJOINING = re.compile(r"</(\w+)><\1>")
_PIECE = re.compile(r"(?:<[^<>]*>|[^ ])+")
_MOST_LINES = 12
_LONGEST_PAUSE = 2.0
"""Lines and seconds between cues after which no sentence goes on."""
NOTHING = "…"
"""What a cue shows that no word of its sentence is left for."""


class Line(NamedTuple):
    """A line of a cue, without the markup that stands around all of it."""

    where: Where
    parts: Sequence[Part[str]]
    around: str
    """The markup before the first words of the cue."""
    begins_cue: bool
    pause: float = 0.0
    """Seconds between the cue before and the one that it begins."""

    @property
    def words(self) -> str:
        return "".join(part.words for part in self.parts).strip()


class Sentence(NamedTuple):
    """Lines that are translated as one text."""

    lines: Sequence[Line]
    inline: Inline[str]

    def dealt_out(self, translation: str) -> list[str]:
        """A translation in as many lines, each about as long for the whole as its source is."""
        pieces = _PIECE.findall("".join(self.inline.parts(translation, lambda _: False))) or [""]
        ends = [*accumulate(len(piece) + 1 for piece in pieces)]
        sizes = [*accumulate(len(line.words) + 1 for line in self.lines)]
        dealt, first = list[str](), 0
        for size in sizes:
            wanted = size * ends[-1] / sizes[-1]
            last = max(first, 1)
            while last < len(pieces) and abs(ends[last] - wanted) <= abs((ends[last - 1] if last else 0) - wanted):
                last += 1
            dealt.append(" ".join(pieces[first:last]))
            first = last
        return [words or (NOTHING if line.begins_cue else "") for line, words in zip(self.lines, dealt, strict=True)]


class Subtitles(Document):
    """A file of subtitles. All but the text of its cues stays as it is, to the byte."""

    def __init__(self, content: str, encoding: str, lines: Sequence[Line]) -> None:
        super().__init__()
        self._content, self._encoding = content, encoding
        groups: list[list[Line]] = []
        for line in lines:
            if groups and _goes_on(groups[-1], line):
                groups[-1].append(line)
            else:
                groups.append([line])
        space = Part("words", " ", " ")
        self._sentences = [
            Sentence(group, Inline.of([part for line in group for part in (*line.parts, space)]))
            for group in groups
            if any(has_words(line.words) for line in group)
        ]
        self.texts = [sentence.inline.text for sentence in self._sentences]

    def place(self, number: int) -> str:
        return line_of(self._content, self._sentences[number].lines[0].where)

    def translated(self, translations: Sequence[str]) -> bytes:
        parts, end = list[str](), 0
        for sentence, translation in zip(self._sentences, translations, strict=True):
            if translation == sentence.inline.text:
                continue
            for line, words in zip(sentence.lines, sentence.dealt_out(translation), strict=True):
                between = self._content[end : line.where[0]]
                if not words:  # the line goes, and its markup stays
                    between = _ADJOINING.sub("", "".join(tag[0] for tag in _TAG.finditer(between)))
                parts += [between, words]
                end = line.where[1]
        return "".join([*parts, self._content[end:]]).encode(self._encoding)


def _goes_on(lines: Sequence[Line], line: Line) -> bool:
    """Whether a sentence of these lines goes on in the next. From cue to cue, only with the same markup around each."""
    if len(lines) == _MOST_LINES or _BEGINNING.match(line.words) or _END.search(lines[-1].words):
        return False
    if not line.begins_cue:
        return True
    if line.pause > _LONGEST_PAUSE or line.around != lines[-1].around:
        return False
    return all(part.kind == "words" for each in (*lines, line) for part in each.parts)


def _parts(line: str) -> list[Part[str]]:
    parts, end = list[Part[str]](), 0
    for tag in _TAG.finditer(line):
        words = line[end : tag.start()]
        kind: Literal["open", "close", "single"] = "close" if tag[1] else "open" if tag[2] else "single"
        parts += [Part("words", words, unescaped(words)), Part(kind, tag[0])]
        end = tag.end()
    return [*parts, Part("words", line[end:], unescaped(line[end:]))]


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Subtitles:
    """A file of subtitles and its sentences.

    Raises:
        DataError: it is damaged.
        MissingExtra: webvtt-py is not installed.
    """
    with optional("webvtt-py", "documents"):
        from webvtt import from_buffer
        from webvtt.errors import MalformedFileError
    text, encoding = decoded(content, path)
    kind = "vtt" if text.removeprefix("\ufeff").startswith("WEBVTT") else "srt"
    try:
        cues = from_buffer(StringIO(text.replace("\r\n", "\n")), format=kind).captions
    except MalformedFileError as error:
        raise DataError(f"{path} is no file of subtitles: {error}") from None
    lines, end, before, around = list[Line](), 0, 0.0, ""
    for cue in cues:
        for place, line in enumerate(cue.lines):
            begin = text.index(line, end if place else text.index("-->", end))
            end = begin + len(line)
            parts = _parts(line)
            first, last = trimmed(parts)
            outer = ["".join(part.piece for part in some) for some in (parts[:first], parts[last:])]
            where = begin + len(outer[0]), end - len(outer[1])
            around = around if place else outer[0]
            pause = 0.0 if place else cue.start_in_seconds - before
            lines.append(Line(where, parts[first:last], around, not place, pause))
        before = cue.end_in_seconds
    return Subtitles(text, encoding, lines)
