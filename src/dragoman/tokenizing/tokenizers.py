"""The tokenizers of a model's two sides, as a model folder holds them, whichever library they come from."""

from pathlib import Path
from typing import NamedTuple, Self

from dragoman.errors import TokenizerError
from dragoman.tokenizing.sentencepiece import SentencePieceTokenizer, beside
from dragoman.tokenizing.tokenizer import Tokenizer


class Tokenizers(NamedTuple):
    """The tokenizers of both sides; the same object twice if one vocabulary serves both."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Whether a piece has the same id on both sides."""
        return self.source.shares_ids(self.target)

    def save(self, folder: Path | str) -> None:
        """Writes `tokenizer.json`, or `tokenizer.source.json` and `tokenizer.target.json`."""
        if self.source is self.target:
            self.source.save(Path(folder) / "tokenizer.json")
        else:
            self.source.save(Path(folder) / "tokenizer.source.json")
            self.target.save(Path(folder) / "tokenizer.target.json")

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Reads what `save` wrote.

        Raises:
            TokenizerError: a file is missing or wrong, or the folder holds tokenizers of both kinds.
        """
        joint, *sides = (Path(folder) / f"tokenizer{side}.json" for side in ("", ".source", ".target"))
        if joint.exists() and any(side.exists() for side in sides):
            raise TokenizerError(f"{folder} holds tokenizer.json and one per side as well; keep one or the other")
        if any(side.exists() for side in sides):
            return cls(*map(load_tokenizer, sides))
        both = load_tokenizer(joint)
        return cls(both, both)


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer that was saved at `path`; one of SentencePiece has that library's model beside it."""
    return SentencePieceTokenizer.load(path) if beside(path).exists() else Tokenizer.load(path)
