"""Tokenizer around a model of the SentencePiece library (Kudo and Richardson 2018), as Marian, M2M-100 and others have.

The library cuts a text into pieces, and a table assigns their ids: after the four special symbols, in the table's
order. Pieces that are not in the table are unknown. The library's model is stored in a `.spm` file next to
`tokenizer.json`.
"""

import hashlib
import json
import re
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import pydantic

from dragoman.config import Settings, read_json_as
from dragoman.errors import TokenizerError, optional
from dragoman.files import write_file
from dragoman.languages import LanguageTag
from dragoman.tokenizing.special_tokens import UNKNOWN, Specials
from dragoman.tokenizing.tokenizer import TAG, Tokenizer, content_of, only_unicode, word_around

FORMAT = 1
"""Format number of the file of pieces."""
LARGEST_MODEL_BYTES = 1 << 26
"""Ten times the size of a model with a quarter of a million pieces."""
_SPACE = "▁"
_PIECE, _UNUSED = 0x0A, bytes([0x18, 5])
"""In the library's model: the tag of a piece, and the field for a type that is never used."""
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class SentencePieces(Settings):
    """Table of pieces: the content of `tokenizer.json` next to a SentencePiece model."""

    format: Literal[1] = FORMAT
    kind: Literal["sentencepiece"] = "sentencepiece"
    specials: Specials = Specials(unknown="<unk>", padding="<pad>", start="<s>", end="</s>")
    """Names of the special symbols."""
    pieces: tuple[str, ...]
    """Pieces in the order of their ids, after the special symbols."""
    languages: tuple[LanguageTag, ...] = ()
    """Languages that have a symbol; the symbols come after the pieces."""

    @pydantic.model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.pieces)) < len(self.pieces) or not all(self.pieces):
            raise ValueError("a piece is empty or listed twice")
        if len(set(self.languages)) < len(self.languages):
            raise ValueError("a language is listed twice")
        return self


class SentencePieceTokenizer(Tokenizer):
    """Tokenizer with a SentencePiece model and its table of ids.

    The library normalises a text before it cuts it, for example several spaces become one; decoding does not undo
    this.
    """

    kind = "sentencepiece"

    def __init__(self, vocabulary: SentencePieces, model: bytes) -> None:
        """Build the tokenizer; `model` is the content of a `.spm` file."""
        self.vocabulary, self.model = vocabulary, model
        self._processor = _processor(model)
        first = len(vocabulary.specials.names)
        self._table = {piece: id_ for id_, piece in enumerate(vocabulary.pieces, first)}
        self._spelling = [name.encode() for name in vocabulary.specials.names]
        self._spelling += [_spelled(piece) for piece in vocabulary.pieces]
        self._add_languages(vocabulary.languages)
        if not self.languages:  # Marian's models with several target languages have pieces such as `>>ita<<`
            self.languages = {piece[2:-2]: id_ for piece, id_ in self._table.items() if TAG.fullmatch(piece)}

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text; uses all cores."""
        cut = [self._split_tag(text) for text in texts]
        rows = self._processor.encode([text for _, text in cut], out_type=str)
        return [
            [*language, *(self._table.get(piece, UNKNOWN) for piece in row)]
            for (language, _), row in zip(cut, rows, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special symbols. Bytes that are no character become U+FFFD."""
        spelled = b"".join(self._spelling[i] for i in ids if not self.is_special(i))
        return spelled.decode(errors="replace").strip()

    def unknown_words(self, text: str, ids: Sequence[int] | None = None) -> list[str]:
        """Return the distinct words of `text` with a piece that has no id. Passing the text's `ids` saves time."""
        if ids is not None and UNKNOWN not in ids:
            return []
        words = (word_around(text, first, last) for piece, first, last in self._pieces(text) if piece == UNKNOWN)
        return list(dict.fromkeys(words))

    def normalise(self, text: str) -> str:
        """Return `text` as the library normalises it before cutting."""
        _, rest = self._split_tag(text)
        normal: str = self._processor.normalize(rest)
        return (text[: len(text) - len(rest)] + normal).replace(_SPACE, " ").strip()

    @cached_property
    def identity(self) -> str:
        """Return the SHA-256, in hexadecimal, of everything that determines the ids of a text."""
        table = json.dumps(content_of(self.vocabulary), sort_keys=True)
        return hashlib.sha256(table.encode() + self.model).hexdigest()

    def save(self, path: Path | str) -> None:
        """Write the table to `path`, and the library's model next to it."""
        content = content_of(self.vocabulary)
        write_file(path, json.dumps(content, ensure_ascii=False) + "\n")
        write_file(model_path(path), self.model)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read the files that `save` wrote."""
        vocabulary = read_json_as(path, SentencePieces, FORMAT, error=TokenizerError)
        return cls(vocabulary, read_model(model_path(path)))

    def _pieces(self, text: str) -> list[tuple[int, int, int]]:
        """Return the ids of `text`, each with its first character position and the one after its last."""
        language, rest = self._split_tag(text)
        start = len(text) - len(rest)
        encoded: Any = self._processor.encode(rest, return_type="offset_mapping")
        tag = [(symbol, 0, start) for symbol in language]
        return tag + [
            (self._table.get(piece, UNKNOWN), start + first, start + last)
            for piece, (first, last) in zip(encoded["pieces"], encoded["offsets"], strict=True)
        ]

    @property
    def pieces_of_model(self) -> list[str]:
        """The pieces of the library's model in the order of ids there, symbols included."""
        return [self._processor.id_to_piece(id_) for id_ in range(self._processor.get_piece_size())]

    def shares_ids(self, tokenizer: Tokenizer) -> bool:
        """Return True if every piece has the same id in both tokenizers."""
        return isinstance(tokenizer, SentencePieceTokenizer) and self.vocabulary == tokenizer.vocabulary

    def _split_tag(self, text: str) -> tuple[list[int], str]:
        """Split off the tag at the beginning of a text, as its symbol; check that the text is Unicode."""
        with only_unicode([text]):
            text.encode()
        return super()._split_tag(text)


def model_path(path: Path | str) -> Path:
    """Return the path of the library's model that belongs to this file of pieces."""
    return Path(path).with_suffix(".spm")


def read_model(path: Path) -> bytes:
    """Read a model of the library as bytes.

    Raises:
        TokenizerError: the file is missing or far too large.
    """
    try:
        if path.stat().st_size > LARGEST_MODEL_BYTES:
            raise TokenizerError(f"{path} is larger than {LARGEST_MODEL_BYTES >> 20} MiB; it is no SentencePiece model")
        return path.read_bytes()
    except OSError as error:
        raise TokenizerError(f"{path} cannot be read: {error.strerror}") from None


def keep_pieces(model: bytes, pieces: Collection[str]) -> bytes:
    """Return a model of the library that cuts text into these pieces, as its `SetVocabulary` does: each other piece,
    but for symbols and bytes, is marked as unused. Text that only others could spell becomes unknown.

    The model is a protocol buffer whose fields have a length. Field 1 repeats: a piece, whose own fields are 1, the
    text, 2, a score, and 3, the type, of which the last one counts.
    """
    processor, parts, at, number = _processor(model), list[bytes](), 0, 0
    while at < len(model):
        (length, start), field = _read_length(model, at + 1), model[at]
        content = model[start : start + length]
        if field == _PIECE:
            others = (processor.is_control, processor.is_unknown, processor.is_byte)
            if processor.id_to_piece(number) not in pieces and not any(is_other(number) for is_other in others):
                content += _UNUSED
            number += 1
        parts += [model[at : at + 1], _written_length(len(content)), content]
        at = start + length
    assert number == processor.get_piece_size(), "every field has a length"
    return b"".join(parts)


def _read_length(message: bytes, at: int) -> tuple[int, int]:
    """Return a number of seven bits in each byte, the lowest first, and the place after it."""
    number = shift = 0
    while message[at] & 128:
        number, shift, at = number | (message[at] & 127) << shift, shift + 7, at + 1
    return number | message[at] << shift, at + 1


def _written_length(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _written_length(number >> 7)


def _processor(model: bytes) -> Any:
    with optional("sentencepiece", "marian"):
        from sentencepiece import SentencePieceProcessor
    processor = SentencePieceProcessor()
    try:
        loaded = bool(model) and processor.LoadFromSerializedProto(model) and processor.get_piece_size() > 0
    except RuntimeError:
        loaded = False
    if not loaded:
        raise TokenizerError("the bytes are not a SentencePiece model; copy the .spm file again from where it was made")
    return processor


def _spelled(piece: str) -> bytes:
    """Return the UTF-8 bytes of the text that a piece represents."""
    byte = _BYTE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(_SPACE, " ").encode()
