"""Texts in, pieces of ids out that a model can take: what `split` and `max_source_tokens` mean. Nothing is left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from dragoman.errors import DecodeError
from dragoman.tokenizing.tokenizer import Tokenizer, only_unicode
from dragoman.translating.sentences import split_sentences, split_to_fit, split_words
from dragoman.translating.translation import Flag

Split = Literal["sentence", "long", "never"]

_CHARACTERS_A_TOKEN = 16
"""A piece with more characters for each token that is allowed is cut without being tried."""


class Piece(NamedTuple):
    """A part of a line that is translated by itself, or `copied` as it stands because it is too long for a word."""

    text: str
    ids: Sequence[int] = ()
    copied: bool = False

    @property
    def says_something(self) -> bool:
        """Whether it holds a letter or a digit; a piece of punctuation alone may have no translation."""
        return any(map(str.isalnum, self.text))


@dataclass(frozen=True)
class Line:
    """One text as its pieces; none where the text is blank."""

    text: str
    pieces: tuple[Piece, ...]
    flags: tuple[Flag, ...]

    @property
    def begins_with_copy(self) -> bool:
        return bool(self.pieces) and self.pieces[0].copied


def read_lines(texts: Sequence[str], tokenizer: Tokenizer, longest: int, split: Split) -> list[Line]:
    """Each text in pieces of at most `longest` tokens, start and end not counted.

    Raises:
        DecodeError: a text is longer and may not be split, or is no text.
        TokenizerError: a text is no Unicode.
    """
    cut = [_pieces(number, text, split) for number, text in enumerate(texts, 1)]
    ids = iter(tokenizer.encode_batch([piece.text for pieces in cut for piece in pieces if not piece.copied]))
    lines: list[Line] = []
    for number, (text, own) in enumerate(zip(texts, cut, strict=True), 1):
        pieces = [piece if piece.copied else Piece(piece.text, next(ids)) for piece in own]
        too_long = max((len(piece.ids) for piece in pieces if len(piece.ids) > longest), default=0)
        if too_long and split == "never":
            raise DecodeError(
                f"text {number} has {too_long:,} tokens, but the model is given at most {longest:,}; "
                "set decode.split = 'long', or raise decode.max_source_tokens"
            )
        broken = False
        if too_long:
            pieces, broken = _break(pieces, tokenizer, longest)
        flags: dict[Flag, bool] = {
            "broken": broken,
            "split": len(pieces) > 1,
            "copied": any(piece.copied for piece in pieces),
            "untranslatable": not all(piece.ids or piece.copied for piece in pieces),
        }
        said = tuple(piece for piece in pieces if piece.ids or piece.copied)
        lines.append(Line(text, said, tuple(flag for flag, is_so in flags.items() if is_so)))
    return lines


def _pieces(number: int, text: str, split: Split) -> list[Piece]:
    if not isinstance(text, str):
        raise DecodeError(f"text {number} should be a string, but is {text!r}")
    if split == "never":
        return [Piece(text.strip())] if text.strip() else []
    sentences = split_sentences(text) if split == "sentence" else [text]
    pieces = [Piece(part.strip(), copied=copied) for each in sentences for part, copied in split_words(each)]
    for piece in pieces:
        if piece.copied:
            with only_unicode([piece.text]):
                piece.text.encode()
    return [piece for piece in pieces if piece.text]


def _break(pieces: Sequence[Piece], tokenizer: Tokenizer, longest: int) -> tuple[list[Piece], bool]:
    """The pieces, each that is too long as sentences that fit, and whether a sentence had to be broken for it."""

    def fits(text: str) -> bool:
        return len(tokenizer.encode(text)) <= longest

    fitting: list[Piece] = []
    broken = False
    for piece in pieces:
        if len(piece.ids) <= longest:
            fitting.append(piece)
            continue
        sentences = [sentence.strip() for sentence in split_sentences(piece.text)]
        for sentence, ids in zip(sentences, tokenizer.encode_batch(sentences), strict=True):
            if len(ids) <= longest:
                fitting.append(Piece(sentence, ids))
                continue
            parts = split_to_fit(sentence, fits, at_most=_CHARACTERS_A_TOKEN * longest)
            broken = broken or len(parts) > 1
            texts = [part.strip() for part in parts if part.strip()]
            fitting += [Piece(text, ids) for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True)]
    return fitting, broken
