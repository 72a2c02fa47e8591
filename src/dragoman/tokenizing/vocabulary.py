"""The learned vocabulary as stored in `tokenizer.json`, and the `tokenizers` library's tokenizer built from it.

The file contains pieces, merges and scores, and nothing executable. All rules are built here, so an invalid file is
rejected with a clear message before the library sees it.
"""

from typing import Literal, Self

import pydantic
import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers

from dragoman.config import Settings
from dragoman.languages import LanguageTag
from dragoman.tokenizing.pretokenizing import (
    OLDER_SUBWORD_PATTERN,
    OLDER_WORD_PATTERN,
    SUBWORD_PATTERN,
    WORD_PATTERN,
)
from dragoman.tokenizing.settings import WHOLE_WORDS, Kind
from dragoman.tokenizing.special_tokens import Specials

FORMAT = 1
_SUBWORDS = (SUBWORD_PATTERN, OLDER_SUBWORD_PATTERN)
PATTERNS: dict[Kind, tuple[str | None, ...]] = {
    "word": (WORD_PATTERN, OLDER_WORD_PATTERN),
    "spacy": (None,),
    "bpe": _SUBWORDS,
    "unigram": _SUBWORDS,
    "byte_bpe": (OLDER_SUBWORD_PATTERN,),
    "character": _SUBWORDS,
}
"""Patterns by which each kind may cut text; new vocabularies use the first."""

# The library needs a piece for unknown text. Normal form C replaces this character, so no normalised text contains it.
NOTHING = "\u2000"


class Vocabulary(Settings):
    """Content of a tokenizer file."""

    format: Literal[1] = FORMAT
    """Format number of the file."""
    kind: Kind
    """Kind of tokenizer, which selects the rules."""
    language: LanguageTag | None = None
    """Code of the language, needed by spaCy's rules."""
    specials: Specials = Specials()
    """Names of the special symbols."""
    pattern: str | None
    """Regular expression by which text is cut; None for spaCy."""
    pieces: tuple[str, ...]
    """Learned pieces in the order of their ids, after the special symbols and bytes."""
    merges: tuple[tuple[str, str], ...] = ()
    """Byte-pair encoding: pairs of pieces to merge, in order."""
    scores: tuple[float, ...] = ()
    """Unigram: log-probability of each piece."""
    languages: tuple[LanguageTag, ...] = ()
    """Languages that have a symbol; the symbols come after the pieces."""

    @pydantic.model_validator(mode="after")
    def _sound(self) -> Self:
        known = set(self.pieces)
        if self.pattern not in PATTERNS[self.kind]:
            raise ValueError("it cuts text by rules that this version does not know")
        if self.kind == "spacy" and self.language is None:
            raise ValueError("kind 'spacy' needs a language")
        if len(known) < len(self.pieces) or known & {"", NOTHING}:
            raise ValueError("a piece is empty, reserved or listed twice")
        if self.merges and self.kind not in ("bpe", "byte_bpe"):
            raise ValueError(f"kind {self.kind!r} has no merges")
        if any(not {left, right, left + right} <= known for left, right in self.merges):
            raise ValueError("a merge names pieces that are not in the vocabulary")
        if self.kind == "character" and any(len(piece) > 1 for piece in self.pieces):
            raise ValueError("kind 'character' has pieces of one character")
        if len(self.scores) != (len(self.pieces) if self.kind == "unigram" else 0):
            raise ValueError("kind 'unigram' has one score for each piece, the other kinds have none")
        if len(set(self.languages)) < len(self.languages):
            raise ValueError("a language is listed twice")
        if not all(-1e9 < score < 1e9 for score in self.scores):
            raise ValueError("a score is not the logarithm of a probability")
        if self.kind == "byte_bpe" and not known >= BYTE_LEVEL.keys() >= set("".join(known)):
            raise ValueError("its pieces are not made of the 256 characters that represent bytes")
        return self


def build_library(kind: Kind, vocabulary: Vocabulary | None = None) -> tokenizers.Tokenizer:
    """Build the library's tokenizer with our rules for `kind`, from a vocabulary or ready to learn one.

    The piece for unknown text comes last; `byte_bpe` has none, because it knows every byte.
    """
    library = tokenizers.Tokenizer(_model(kind, vocabulary))
    if kind in ("bpe", "unigram"):
        # A space before the first word makes it look like any other; decoding removes it.
        library.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Prepend(" ")])
    elif kind != "byte_bpe":
        library.normalizer = normalizers.NFC()
    if pattern := vocabulary.pattern if vocabulary else PATTERNS[kind][0]:
        behavior = "removed" if kind == "word" else "isolated"
        cut = pre_tokenizers.Split(Regex(pattern), behavior, invert=kind == "word")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        library.pre_tokenizer = pre_tokenizers.Sequence([cut, byte_level]) if kind == "byte_bpe" else cut
    return library


def spelling(kind: Kind, piece: str) -> bytes:
    """Return the UTF-8 bytes of the text that a piece represents."""
    return bytes(BYTE_LEVEL[character] for character in piece) if kind == "byte_bpe" else piece.encode()


def _model(kind: Kind, vocabulary: Vocabulary | None) -> models.Model:
    pieces = vocabulary.pieces if vocabulary else ()
    merges = list(vocabulary.merges) if vocabulary else []
    numbers = {piece: number for number, piece in enumerate(pieces)}
    if kind == "byte_bpe":
        return models.BPE(numbers, merges)
    if kind == "unigram":
        scores = vocabulary.scores if vocabulary else ()
        return models.Unigram([*zip(pieces, scores, strict=True), (NOTHING, 0.0)], unk_id=len(pieces))
    numbers[NOTHING] = len(pieces)
    if kind in WHOLE_WORDS:
        return models.WordLevel(numbers, NOTHING)
    return models.BPE(numbers, merges, unk_token=NOTHING)  # without merges: characters


_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_OTHERS = [value for value in range(256) if value not in _PRINTABLE]
BYTE_LEVEL = {chr(value): value for value in _PRINTABLE} | {chr(256 + n): value for n, value in enumerate(_OTHERS)}
"""The library's characters for bytes: printable bytes map to themselves, the others start at U+0100."""
