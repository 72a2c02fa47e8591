"""The tokenizers of a model's source and target side, and their files in a model folder."""

from pathlib import Path
from typing import NamedTuple, Self

from dragoman.errors import TokenizerError
from dragoman.tokenizing.sentencepiece import SentencePieceTokenizer, model_path
from dragoman.tokenizing.tokenizer import Tokenizer


class Tokenizers(NamedTuple):
    """Tokenizers of both sides; the same object twice if the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Return True if every piece has the same id on both sides."""
        return self.source.shares_ids(self.target)

    def save(self, folder: Path | str) -> None:
        """Write `tokenizer.json`, or `tokenizer.source.json` and `tokenizer.target.json`."""
        if self.source is self.target:
            self.source.save(Path(folder) / "tokenizer.json")
        else:
            self.source.save(Path(folder) / "tokenizer.source.json")
            self.target.save(Path(folder) / "tokenizer.target.json")

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Read the files that `save` wrote.

        Raises:
            TokenizerError: a file is missing or invalid, or the folder contains both a shared and separate tokenizers.
        """
        joint, *sides = (Path(folder) / f"tokenizer{side}.json" for side in ("", ".source", ".target"))
        if joint.exists() and any(side.exists() for side in sides):
            raise TokenizerError(f"{folder} contains both tokenizer.json and one per side; remove the wrong ones")
        if any(side.exists() for side in sides):
            return cls(*map(load_tokenizer, sides))
        shared = load_tokenizer(joint)
        return cls(shared, shared)


def load_tokenizer(path: Path) -> Tokenizer:
    """Load the tokenizer saved at `path`: SentencePiece's if a `.spm` file is next to it."""
    return SentencePieceTokenizer.load(path) if model_path(path).exists() else Tokenizer.load(path)
