"""What a tokenizer has learnt, as `tokenizer.json` holds it, and the `tokenizers` library built from it.

The file holds the pieces and how they are put together, and nothing executable. All rules are built here, so that a
foreign file is refused by name before the library sees it.
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
from dragoman.tokenizing.special_tokens import Specials

Kind = Literal["word", "spacy", "bpe", "unigram", "byte_bpe", "character"]
WHOLE_WORDS: tuple[Kind, ...] = ("word", "spacy")
"""Kinds whose ids are words and punctuation marks; they differ only in who cuts the text."""
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
"""Where each kind may cut text; new vocabularies take the first."""

# The library needs a piece for unknown text. Normal form C turns this character into another one, so that no
# normalised text can spell it.
NOTHING = "\u2000"


class Vocabulary(Settings):
    """The content of a tokenizer file."""

    format: Literal[1] = FORMAT
    """Number of the file's format."""
    kind: Kind
    """Which rules apply."""
    language: LanguageTag | None = None
    """Code of the language, which spaCy's rules need."""
    specials: Specials = Specials()
    """Names of the special symbols."""
    pattern: str | None
    """Where text is cut, as a regular expression; None for spaCy."""
    pieces: tuple[str, ...]
    """What was learnt, in the order of the ids, after the special symbols and bytes."""
    merges: tuple[tuple[str, str], ...] = ()
    """Byte-pair encoding: the pairs of pieces that become one, in the order in which they do."""
    scores: tuple[float, ...] = ()
    """Unigram: the logarithm of each piece's probability."""

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
        if not all(-1e9 < score < 1e9 for score in self.scores):
            raise ValueError("a score is not the logarithm of a probability")
        if self.kind == "byte_bpe" and not known >= BYTE_LEVEL.keys() >= set("".join(known)):
            raise ValueError("its pieces are not made of the 256 characters that stand for bytes")
        return self


def build_library(kind: Kind, vocabulary: Vocabulary | None = None) -> tokenizers.Tokenizer:
    """The library's tokenizer by our rules for `kind`, with a vocabulary or ready to learn one.

    The piece for unknown text comes last; `byte_bpe` has none, because it knows every byte.
    """
    library = tokenizers.Tokenizer(_model(kind, vocabulary))
    if kind in ("bpe", "unigram"):
        # A space before the first word makes it look like any other; decoding removes it.
        library.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Prepend(" ")])
    elif kind != "byte_bpe":
        library.normalizer = normalizers.NFC()
    if pattern := vocabulary.pattern if vocabulary else PATTERNS[kind][0]:
        library.pre_tokenizer = _cut(kind, Regex(pattern))
    return library


def spelling(kind: Kind, piece: str) -> bytes:
    """The UTF-8 bytes that a piece stands for."""
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


def _cut(kind: Kind, pattern: Regex) -> pre_tokenizers.PreTokenizer:
    if kind == "word":
        return pre_tokenizers.Split(pattern, "removed", invert=True)
    cut = pre_tokenizers.Split(pattern, "isolated")
    if kind == "byte_bpe":
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([cut, byte_level])
    return cut


def _byte_level() -> dict[str, int]:
    """The library's characters for bytes: printable ones stand for themselves, the rest start at U+0100."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [value for value in range(256) if value not in printable]
    return {chr(value): value for value in printable} | {chr(256 + n): value for n, value in enumerate(rest)}


BYTE_LEVEL = _byte_level()
