"""A text on its way to the model and back, and the base class of the steps that rewrite it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

if TYPE_CHECKING:
    from dragoman.surface.terms import Terms

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
"""Something that a reader should know about a translation; `translation.MEANINGS` explains each flag."""
Case = Literal["usual", "capitals", "title", "title with small words", "small", "small beginning"]
"""The letter case of a sentence as it was typed."""

Link = tuple[int, int]
"""A word of the source and a word of the target, counted from 0."""
Links = frozenset[Link]
Kept = Mapping[str, str]
"""The texts that a translation should contain, keyed by their placeholder in the source, else by their source text."""


class TagPair(NamedTuple):
    """An opening and a closing tag, and the part of the text between them, in characters without tags. For a tag
    without a partner and for the mark of an accelerator, the second tag and the part are empty.
    """

    begin: int
    end: int
    tags: tuple[str, str]
    inside: "tuple[TagPair, ...]" = ()


class Segment(NamedTuple):
    """A line, or a part of a line that the model translates by itself, with the notes of the steps that rewrote it.

    Attributes:
        typed: the text as it was typed, without language tag and markup.
        text: the same text as the model reads it.
        is_copied: True if the text is not translated, because it has no words or is too long to be a word.
        ids: token ids of `text`, after `symbols` ids that name the target language.
        before, after, marks: the characters around the sentence, and those of `after` that end it.
        kept: the texts that the translation should contain.
        case, styles: the letter case, and the quotes, apostrophes and dashes that were replaced.
        has_added_mark: True if the sentence got an end mark that was not typed.

    Attributes of a line:
        original: the text with its language tag and markup.
        language: the name in that tag.
        pairs: the outermost pairs of tags, in order.
        parts: the parts in order; a blank line has none.
        prefix: the beginning of the translation if the first part is copied.
        flags: the flags known before translating.
    """

    typed: str
    text: str
    is_copied: bool = False
    ids: Sequence[int] = ()
    symbols: int = 0
    before: str = ""
    after: str = ""
    marks: str = ""
    kept: Kept = MappingProxyType({})
    case: Case = "usual"
    styles: str = ""
    has_added_mark: bool = False
    original: str = ""
    language: str | None = None
    pairs: tuple[TagPair, ...] = ()
    parts: "tuple[Segment, ...]" = ()
    prefix: str = ""
    flags: tuple[Flag, ...] = ()

    @classmethod
    def from_typed(cls, text: str, is_copied: bool = False) -> Self:
        """Return a segment that the model reads as it was typed."""
        return cls(text, text, is_copied)

    @property
    def is_rewritten(self) -> bool:
        """True if the model reads another text, or if the translation must contain something."""
        return self.text != self.typed or bool(self.kept)

    @property
    def translated(self) -> "list[Segment]":
        """The parts of a line that the model translates."""
        return [part for part in self.parts if not part.is_copied]


@dataclass(frozen=True)
class Context:
    """The options of a request that steps need.

    Attributes:
        longest: the most tokens of a segment, without symbols around them.
        split: the rule for splitting lines into sentences.
        abbreviations: words that end no sentence.
        protect: regular expressions for text that stays as it is.
        terms: terms that are translated by the search, so no step replaces them.
        prefix: the beginning of every translation.
        is_raw: True if the model reads lines as they were typed.
    """

    longest: int
    split: Split = "sentence"
    abbreviations: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    terms: "Terms | None" = None
    prefix: str = ""
    is_raw: bool = False

    @property
    def rewrites(self) -> bool:
        """True if steps may rewrite sentences; a forced prefix is written for the text as it was typed."""
        return not self.is_raw and not self.prefix


class Restored(NamedTuple):
    """A translation from which some steps have been undone.

    Attributes:
        links: the links between the words of the source and of this text; None if unknown.
        after: the marks after the sentence, if the target language writes them differently.
        is_whole: False for the beginning of a translation that is still being written.
    """

    text: str
    links: Links | None = None
    after: str | None = None
    is_whole: bool = True


class Step:
    """A rewriting of text before translation that is undone afterwards. This one changes nothing."""

    def apply(self, segment: Segment, context: Context) -> list[Segment]:
        """Return the segment as the model should read it, or the parts that it is split into."""
        return [segment]

    def restore(self, segment: Segment, translations: Sequence[Restored]) -> Restored:
        """Undo the step: return one text from the translation of the segment, or from those of its parts."""
        (translation,) = translations
        return translation
