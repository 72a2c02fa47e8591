"""Texts in, pieces of ids out that a model can take: what `split` and `max_source_tokens` mean. Nothing is left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from dragoman.data.tokenizer import Tokenizer
from dragoman.decoding.sentences import split_sentences, split_to_fit
from dragoman.decoding.translation import Flag
from dragoman.errors import DecodeError

Split = Literal["sentence", "long", "never"]


@dataclass(frozen=True)
class Line:
    """One text as the pieces that are translated by themselves; none where the text is blank."""

    text: str
    pieces: tuple[list[int], ...]
    flags: tuple[Flag, ...]


def read_lines(texts: Sequence[str], tokenizer: Tokenizer, longest: int, split: Split) -> list[Line]:
    """Each text in pieces of at most `longest` tokens, start and end not counted.

    Raises:
        DecodeError: a text is longer and may not be split, or is no text.
        TokenizerError: a text is no Unicode.
    """
    pieces = [_pieces(number, text, split) for number, text in enumerate(texts, 1)]
    ids = iter(tokenizer.encode_batch(list(chain.from_iterable(pieces))))
    lines: list[Line] = []
    for number, (text, own) in enumerate(zip(texts, pieces, strict=True), 1):
        rows = [next(ids) for _ in own]
        flags: list[Flag] = []
        if too_long := max((len(row) for row in rows if len(row) > longest), default=0):
            if split == "never":
                raise DecodeError(
                    f"text {number} has {too_long:,} tokens, but the model is given at most {longest:,}; "
                    "set decode.split = 'long', or raise decode.max_source_tokens"
                )
            own, broken = _break(own, lambda piece: len(tokenizer.encode(piece)) <= longest)
            rows = tokenizer.encode_batch(own)
            if broken:
                flags.append("broken")
        if len(own) > 1:
            flags.append("split")
        if not all(rows):
            flags.append("untranslatable")
        lines.append(Line(text, tuple(row for row in rows if row), tuple(flags)))
    return lines


def _pieces(number: int, text: str, split: Split) -> list[str]:
    if not isinstance(text, str):
        raise DecodeError(f"text {number} should be a string, but is {text!r}")
    pieces = split_sentences(text) if split == "sentence" else [text]
    return [piece.strip() for piece in pieces if piece.strip()]


def _break(pieces: Sequence[str], fits: Callable[[str], bool]) -> tuple[list[str], bool]:
    """Pieces that fit, and whether a sentence had to be broken for it."""
    sentences = [s for piece in pieces for s in ([piece] if fits(piece) else split_sentences(piece))]
    fitting = [split_to_fit(sentence.strip(), fits) for sentence in sentences if sentence.strip()]
    return [p.strip() for cut in fitting for p in cut if p.strip()], any(len(cut) > 1 for cut in fitting)
