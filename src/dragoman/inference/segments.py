"""Cuts texts into segments of ids that a model takes, as `split` and `max_source_tokens` say; nothing is left out.

Many texts are cut into chunks that are worked on together.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from typing import Literal, NamedTuple, TypeVar

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.errors import DecodeError
from dragoman.surface.forms import Form
from dragoman.surface.sentences import has_words, part_copies, space_in_line, split_sentences, split_to_fit
from dragoman.surface.tags import Markup
from dragoman.tokenizing.tokenizer import Tokenizer, only_unicode

Split = Literal["sentence", "long", "never"]
Flag = Literal[
    "split",
    "broken",
    "copied",
    "truncated",
    "repetition",
    "doubtful",
    "cleaned",
    "untranslatable",
    "lost",
    "term",
    "unknown",
    "language",
    "left",
]
"""What a reader should know about a translation; `translation.MEANINGS` says what each means."""

LINES = 1000
CHARACTERS = 1_000_000

T = TypeVar("T")

CHARACTERS_A_TOKEN = 16
"""A text with more characters for each allowed token is too long without asking the tokenizer first."""

LONGEST_WHOLE = 8_192
"""Most tokens of a text that is read whole, where a model has no fewer positions: attention grows with the square."""


class Arriving(Iterator[T]):
    """Texts that somebody sends, who may wait for what is made of the first before the next is sent."""

    def __init__(self, texts: Iterator[T], has_come: Callable[[], bool]) -> None:
        """`has_come` says whether the next text, or the end, is there."""
        self._texts, self.has_come = texts, has_come

    def __next__(self) -> T:
        return next(self._texts)


def chunks(texts: Iterable[T], length: Callable[[T], int]) -> Iterator[list[T]]:
    """Groups texts of these lengths in characters. A chunk ends with `LINES` texts, or with the one that brings it to
    `CHARACTERS`. So chunks that begin at the end of one are the same whatever came before it. Of texts that are
    `Arriving`, it also ends where the next has not come.
    """
    arriving = texts if isinstance(texts, Arriving) else None
    chunk: list[T] = []
    characters = 0
    for text in texts:
        chunk.append(text)
        characters += length(text)
        if len(chunk) == LINES or characters >= CHARACTERS or (arriving and not arriving.has_come()):
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


class Segment(NamedTuple):
    """A part of a text that is translated by itself, or `copied`: it has no words, or is too long to be a word."""

    text: str
    ids: Sequence[int] = ()
    copied: bool = False
    tags: int = 0
    """How many of the ids stand before the text, and name the language to translate into."""
    form: Form | None = None
    """How it was typed, if the model reads it otherwise."""

    @property
    def read(self) -> str:
        """The text as the model reads it."""
        return self.text if self.form is None else self.form.plain


@dataclass(frozen=True)
class Segments:
    """One text as its segments; a blank text has none."""

    text: str
    all: tuple[Segment, ...]
    flags: tuple[Flag, ...]
    given: str
    """The text as it was given, with the tag of a language and with markup."""
    markup: Markup | None = None
    """Tags that were taken out of the text, and stand in its translation."""

    @property
    def translated(self) -> list[Segment]:
        """Those that the model is given."""
        return [segment for segment in self.all if not segment.copied]

    @property
    def spaces(self) -> list[str]:
        """The white space before each segment, and behind the last."""
        spaces, end = [], 0
        for segment in self.all:
            begin = self.text.index(segment.text, end)
            spaces.append(space_in_line(self.text[end:begin]))
            end = begin + len(segment.text)
        return [*spaces, space_in_line(self.text[end:])]

    @property
    def begins_with_copy(self) -> bool:
        return bool(self.all) and self.all[0].copied


class Piece(NamedTuple):
    """A segment as it stands in a translated line."""

    segment: Segment
    part: Hypothesis | None
    """What the search found; None of a copy."""
    wrote: str
    """As the model wrote it."""
    text: str
    """As it stands in the line."""
    cleaned: int
    """How many of its characters became spaces."""


def read_segments(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    longest: int,
    split: Split,
    abbreviations: Collection[str] = (),
    form: Callable[[str], Form | None] = lambda _: None,
) -> list[Segments]:
    """Each text in segments of at most `longest` tokens, not counting the symbols around them. The model reads each in
    the `form` that is made of it, if it fits.

    Raises:
        DecodeError: a text is longer and may not be split.
        TokenizerError: a text is not Unicode.
    """
    parts = [
        [part if part.copied else _formed(part.text, longest, form) for part in _split(text, split, abbreviations)]
        for text in texts
    ]
    encoded = iter(_encoded([*chain.from_iterable(parts)], tokenizer, longest))
    segmented: list[Segments] = []
    for number, (text, text_parts) in enumerate(zip(texts, parts, strict=True), 1):
        segments, broken = [*islice(encoded, len(text_parts))], False
        if any(_is_long(segment, longest) for segment in segments):
            if split == "never":
                size = f"{len(segments[0].ids):,} tokens" if segments[0].ids else f"{len(text):,} characters"
                raise DecodeError(
                    f"text {number} has {size}, but the model is given at most {longest:,} tokens; "
                    "set decode.split = 'long', or raise decode.max_source_tokens"
                )
            segments, broken = _break(segments, tokenizer, longest, abbreviations, form)
        kept = tuple(segment for segment in segments if segment.ids or segment.copied)
        copied = [has_words(segment.text) for segment in segments if segment.copied]  # signs around a sentence are none
        flags: dict[Flag, bool] = {
            "broken": broken,
            "split": sum(not segment.copied for segment in segments) > 1,
            "copied": any(copied) or 0 < len(copied) == len(segments),
            "untranslatable": len(kept) < len(segments),
        }
        segmented.append(Segments(text, kept, tuple(flag for flag, is_so in flags.items() if is_so), text))
    return segmented


def _split(text: str, split: Split, abbreviations: Collection[str]) -> list[Segment]:
    """A text's segments, without ids yet."""
    if split == "never" or not has_words(text):
        parts = [(text, not has_words(text))]
    else:
        sentences = split_sentences(text, abbreviations) if split == "sentence" else [text]
        parts = [part for sentence in sentences for part in part_copies(sentence)]
    segments = [Segment(part.strip(), copied=copied) for part, copied in parts]
    for segment in segments:
        if segment.copied:
            with only_unicode([segment.text]):
                segment.text.encode()
    return [segment for segment in segments if segment.text]


def _break(
    segments: Sequence[Segment],
    tokenizer: Tokenizer,
    longest: int,
    abbreviations: Collection[str],
    form: Callable[[str], Form | None],
) -> tuple[list[Segment], bool]:
    """The segments, those that are too long cut into sentences that fit; and whether that broke a sentence."""

    def fits(text: str) -> bool:
        return len(tokenizer.encode(text)) <= longest

    fitting: list[Segment] = []
    broken = False
    for segment in segments:
        if not _is_long(segment, longest):
            fitting.append(segment)
            continue
        sentences = [sentence.strip() for sentence in split_sentences(segment.text, abbreviations)]
        formed = [_formed(sentence, longest, form) for sentence in sentences]
        for sentence in _encoded(formed, tokenizer, longest):
            if not _is_long(sentence, longest):
                fitting.append(sentence)
                continue
            parts = split_to_fit(sentence.text, fits, at_most=CHARACTERS_A_TOKEN * longest)
            broken = broken or len(parts) > 1
            fitting += _encoded([Segment(part.strip()) for part in parts if part.strip()], tokenizer, sys.maxsize)
    return [part if has_words(part.read) else Segment(part.text, copied=True) for part in fitting], broken


def giant(text: str, tokens: int) -> bool:
    """Whether a text is longer than so many tokens, whatever the tokenizer; asking it would take long."""
    return len(text) > CHARACTERS_A_TOKEN * tokens


def _is_long(segment: Segment, longest: int) -> bool:
    return not segment.copied and (len(segment.ids) > longest or giant(segment.text, longest))


def _formed(text: str, longest: int, form: Callable[[str], Form | None]) -> Segment:
    """A segment in its form, but for a giant. Names and code alone are copied, because a model would put words between
    them.
    """
    found = None if giant(text, longest) else form(text)
    is_copied = found is not None and not has_words(found.plain)
    return Segment(text, copied=is_copied, form=None if is_copied else found)


def _encoded(segments: Sequence[Segment], tokenizer: Tokenizer, longest: int) -> list[Segment]:
    """The segments with their ids, but for copies and giants."""
    is_read = [not segment.copied and not giant(segment.text, longest) for segment in segments]
    ids = iter(tokenizer.encode_batch([segment.read for segment in compress(segments, is_read)]))
    return [
        segment._replace(ids=next(ids)) if reads else segment for segment, reads in zip(segments, is_read, strict=True)
    ]
