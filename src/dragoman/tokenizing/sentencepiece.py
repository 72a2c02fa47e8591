"""Text to ids and back by a model of the SentencePiece library (Kudo and Richardson 2018), as Marian's models bring it.

The library cuts a text into pieces, and a table says which id each piece has: after the four special symbols, in the
table's order. Pieces that the table does not hold are unknown. The library's model is kept as its bytes are, in a file
beside `tokenizer.json` that ends in `.spm`.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import pydantic

from dragoman.config import Settings, read_json_as
from dragoman.errors import TokenizerError, optional
from dragoman.files import write_file
from dragoman.tokenizing.special_tokens import UNKNOWN, Specials
from dragoman.tokenizing.tokenizer import Tokenizer, only_unicode, word_around

FORMAT = 1
"""Of the file of pieces."""
LARGEST_MODEL_BYTES = 1 << 26
"""A model of a quarter of a million pieces takes a tenth of it."""
_SPACE = "▁"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_LANGUAGE = re.compile(r">>\S+?<<")
"""What Marian's models into several languages want before a text: `>>ita<<` names one."""


class SentencePieces(Settings):
    """The table of pieces: the content of `tokenizer.json` beside a model of SentencePiece."""

    format: Literal[1] = FORMAT
    kind: Literal["sentencepiece"] = "sentencepiece"
    specials: Specials = Specials(unknown="<unk>", padding="<pad>", start="<s>", end="</s>")
    """Names of the special symbols."""
    pieces: tuple[str, ...]
    """In the order of the ids, after the special symbols."""

    @pydantic.model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.pieces)) < len(self.pieces) or not all(self.pieces):
            raise ValueError("a piece is empty or listed twice")
        return self


class SentencePieceTokenizer(Tokenizer):
    """A model of the SentencePiece library and its table of ids, used like any other `Tokenizer`.

    The library normalises a text before it cuts it; above all, several spaces in a row become one. What that changes
    does not come back when the ids are decoded.
    """

    kind = "sentencepiece"

    def __init__(self, vocabulary: SentencePieces, model: bytes) -> None:
        """`model` is the content of a `.spm` file."""
        self.vocabulary, self.model = vocabulary, model
        self._processor = _processor(model)
        first = len(vocabulary.specials.names)
        self._table = {piece: id_ for id_, piece in enumerate(vocabulary.pieces, first)}
        self.target_languages = {piece[2:-2]: id_ for piece, id_ in self._table.items() if _LANGUAGE.fullmatch(piece)}
        self._spelling = [name.encode() for name in vocabulary.specials.names]
        self._spelling += [_spelled(piece) for piece in vocabulary.pieces]
        self.size = len(self._spelling)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, on all cores at once."""
        cut = [self._split_language(text) for text in texts]
        rows = self._processor.encode([text for _, text in cut], out_type=str)
        return [
            [self._table.get(piece, UNKNOWN) for piece in (*language, *row)]
            for (language, _), row in zip(cut, rows, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special symbols. Bytes that are no character become U+FFFD."""
        spelled = b"".join(self._spelling[i] for i in ids if not self.is_special(i))
        return spelled.decode(errors="replace").strip()

    def unknown_words(self, text: str, ids: Sequence[int] | None = None) -> list[str]:
        """The words of `text` with a piece that has no id, each once. The text's `ids` save time."""
        if ids is not None and UNKNOWN not in ids:
            return []
        found = (word_around(text, first, last) for piece, first, last in self._pieces(text) if piece == UNKNOWN)
        return list(dict.fromkeys(found))

    def normalise(self, text: str) -> str:
        """The form in which the library cuts `text`."""
        language, text = self._split_language(text)
        normal: str = self._processor.normalize(text)
        return "".join((*language, normal)).replace(_SPACE, " ").strip()

    @cached_property
    def identity(self) -> str:
        """SHA-256, in hexadecimal, of everything that decides the ids of a text."""
        table = json.dumps(self.vocabulary.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(table.encode() + self.model).hexdigest()

    def save(self, path: Path | str) -> None:
        """Writes the table at `path`, and the library's model beside it."""
        content = self.vocabulary.model_dump(mode="json")
        write_file(path, json.dumps(content, ensure_ascii=False) + "\n")
        write_file(beside(path), self.model)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Reads what `save` wrote."""
        vocabulary = read_json_as(path, SentencePieces, FORMAT, error=TokenizerError)
        return cls(vocabulary, read_model(beside(path)))

    def _pieces(self, text: str) -> list[tuple[int, int, int]]:
        """Each id of `text`, with the positions of its first character and of the one after its last."""
        language, rest = self._split_language(text)
        ahead = len(text) - len(rest)
        found: Any = self._processor.encode(rest, return_type="offset_mapping")
        marked = [(self._table.get(name, UNKNOWN), 0, ahead) for name in language]
        return marked + [
            (self._table.get(piece, UNKNOWN), ahead + first, ahead + last)
            for piece, (first, last) in zip(found["pieces"], found["offsets"], strict=True)
        ]

    def shares_ids(self, other: Tokenizer) -> bool:
        """Whether a piece has the same id in both."""
        return isinstance(other, SentencePieceTokenizer) and self.vocabulary == other.vocabulary

    def _split_language(self, text: str) -> tuple[list[str], str]:
        """The piece that names the target language, where a text begins with one, and the rest of the text, which is
        Unicode.
        """
        with only_unicode([text]):
            text.encode()
        found = _LANGUAGE.match(text)
        return ([found[0]], text[found.end() :]) if found and found[0] in self._table else ([], text)


def beside(path: Path | str) -> Path:
    """The file of the library's model that belongs to this file of pieces."""
    return Path(path).with_suffix(".spm")


def read_model(path: Path) -> bytes:
    """The bytes of a model of the library.

    Raises:
        TokenizerError: the file is missing or far too large.
    """
    try:
        if path.stat().st_size > LARGEST_MODEL_BYTES:
            raise TokenizerError(f"{path} is larger than {LARGEST_MODEL_BYTES >> 20} MiB; it is no SentencePiece model")
        return path.read_bytes()
    except OSError as error:
        raise TokenizerError(f"{path} cannot be read: {error.strerror}") from None


def _processor(model: bytes) -> Any:
    with optional("sentencepiece", "marian"):
        from sentencepiece import SentencePieceProcessor
    processor = SentencePieceProcessor()
    try:
        known = bool(model) and processor.LoadFromSerializedProto(model) and processor.get_piece_size() > 0
    except RuntimeError:
        known = False
    if not known:
        raise TokenizerError("the bytes are no model of SentencePiece; take the .spm file from where it was made")
    return processor


def _spelled(piece: str) -> bytes:
    """What a piece stands for in a text, as UTF-8."""
    byte = _BYTE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(_SPACE, " ").encode()
