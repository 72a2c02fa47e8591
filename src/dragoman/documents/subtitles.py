"""Subtitles, SRT and WebVTT: a sentence that goes on over lines and cues is translated as one, and dealt out to them
again by their lengths.
"""

import re
from collections.abc import Sequence
from io import StringIO
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple

from dragoman.documents.document import Document, Where
from dragoman.documents.inline import Inline, Part, trimmed
from dragoman.documents.reading import decoded
from dragoman.errors import DataError, missing_extra
from dragoman.inference.sentences import has_words

_TAG = re.compile(r"(</[^<>]*>)|(<[^<>]*>)|(\{[^{}]*\})")
_BEGINNING = re.compile(r"[-–—♪♫#(\[*]")
_END = re.compile(r"[.!?…:。！？♪♫)\]][\"'”’»]*\Z")
_SPACE = re.compile(r" +(?![^<>]*>)")
_MOST_LINES = 6
_LONGEST_PAUSE = 2.0
"""Lines and seconds between cues after which no sentence goes on."""
NOTHING = "…"
"""What a cue shows that no word of its sentence is left for."""


class Line(NamedTuple):
    """A line of a cue."""

    where: Where
    text: str
    begins_cue: bool
    pause: float = 0.0
    """Seconds between the cue before and the one that it begins."""

    @property
    def words(self) -> str:
        return _TAG.sub("", self.text).strip()


class Sentence(NamedTuple):
    """Lines that are translated as one text, and the markup that stands around it."""

    lines: Sequence[Line]
    before: str
    inline: Inline[str]
    behind: str

    def dealt_out(self, translation: str) -> list[str]:
        """A translation in as many lines, each about as long for the whole as its source is."""
        pieces = _SPACE.split(self.before + "".join(self.inline.parts(translation, with_empty=False)) + self.behind)
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
        self._content, self._encoding = content, encoding
        groups: list[list[Line]] = []
        for line in lines:
            if groups and _goes_on(groups[-1], line):
                groups[-1].append(line)
            else:
                groups.append([line])
        self._sentences = [_sentence(group) for group in groups if any(has_words(line.words) for line in group)]

    @property
    def texts(self) -> Sequence[str]:
        return [sentence.inline.text for sentence in self._sentences]

    def translated(self, translations: Sequence[str]) -> bytes:
        parts, end = list[str](), 0
        for sentence, translation in zip(self._sentences, translations, strict=True):
            if translation == sentence.inline.text:
                continue
            for line, words in zip(sentence.lines, sentence.dealt_out(translation), strict=True):
                if words:
                    parts += [self._content[end : line.where[0]], words]
                end = line.where[1]
        return "".join([*parts, self._content[end:]]).encode(self._encoding)


def _goes_on(lines: Sequence[Line], line: Line) -> bool:
    """Whether a sentence of these lines goes on in the next. From cue to cue, only without markup."""
    if len(lines) == _MOST_LINES or _BEGINNING.match(line.words) or _END.search(lines[-1].words):
        return False
    if not line.begins_cue:
        return True
    return line.pause <= _LONGEST_PAUSE and not any(_TAG.search(each.text) for each in (*lines, line))


def _sentence(lines: Sequence[Line]) -> Sentence:
    parts: list[Part[str]] = []
    for line in lines:
        end = 0
        for tag in _TAG.finditer(line.text):
            words = line.text[end : tag.start()]
            kind: Literal["open", "close", "single"] = "close" if tag[1] else "open" if tag[2] else "single"
            parts += [Part("words", words, words), Part(kind, tag[0])]
            end = tag.end()
        parts += [Part("words", line.text[end:], line.text[end:]), Part("words", " ", " ")]
    first, last = trimmed(parts)
    before, behind = ("".join(part.piece for part in some) for some in (parts[:first], parts[last:]))
    return Sentence(lines, before.lstrip(), Inline.of(parts[first:last]), behind.rstrip())


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Subtitles:
    """A file of subtitles and its sentences.

    Raises:
        DataError: it is damaged.
        MissingExtra: webvtt-py is not installed.
    """
    try:
        from webvtt import from_buffer
        from webvtt.errors import MalformedFileError
    except ImportError:
        raise missing_extra("webvtt-py", "documents") from None
    text, encoding = decoded(content, path)
    kind = "vtt" if text.removeprefix("\ufeff").startswith("WEBVTT") else "srt"
    try:
        cues = from_buffer(StringIO(text.replace("\r\n", "\n")), format=kind).captions
    except MalformedFileError as error:
        raise DataError(f"{path} is no file of subtitles: {error}") from None
    lines, end, before = list[Line](), 0, 0.0
    for cue in cues:
        for place, line in enumerate(cue.lines):
            begin = text.index(line, end if place else text.index("-->", end))
            end = begin + len(line)
            lines.append(Line((begin, end), line, not place, 0.0 if place else cue.start_in_seconds - before))
        before = cue.end_in_seconds
    return Subtitles(text, encoding, lines)
