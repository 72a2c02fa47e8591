"""Settings of tokenizers, readable without the `tokenizers` library."""

from typing import Any, Literal, Self

import pydantic

from dragoman.config import Settings
from dragoman.surface.placeholders import PLACEHOLDERS
from dragoman.tokenizing.special_tokens import SYMBOLS, Specials

Kind = Literal["word", "spacy", "bpe", "unigram", "byte_bpe", "character"]
WHOLE_WORDS: tuple[Kind, ...] = ("word", "spacy")
"""Kinds whose ids are words and punctuation marks; they differ only in how the text is split."""


class TokenizerSettings(Settings):
    """Settings of the tokenizer."""

    kind: Kind = "bpe"
    """Way to cut text into tokens. `bpe` and `unigram` cut words into pieces and spell unseen characters in bytes;
    `character` uses single characters and spells unseen ones in bytes; `byte_bpe` uses bytes only (with vocabulary_size
    = 260: one id per byte); `word` uses whole words, `spacy` whole words by spaCy's rules (needs the extra `spacy`)."""
    vocabulary_size: int | None = pydantic.Field(default=None, le=1_000_000)
    """Maximum number of ids, special symbols, bytes and placeholders included. Default: 8,000; no limit for whole words
    and for characters."""
    minimum_frequency: int = pydantic.Field(default=2, ge=1)
    """Minimum count of a word, a character or a merge in the training text."""
    joint: bool = True
    """Share one vocabulary between both sides. Default: false for whole words, else true."""
    specials: Specials = Specials()
    """Names of the special symbols."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _derive(cls, settings: Any) -> Any:
        if not isinstance(settings, dict):
            return settings
        sizes: dict[Any, dict[str, Any]] = {kind: {"joint": False} for kind in WHOLE_WORDS} | {"character": {}}
        derived = sizes.get(str(settings.get("kind")), {"vocabulary_size": 8_000})
        return {**derived, **{key: value for key, value in settings.items() if value is not None}}

    @pydantic.model_validator(mode="after")
    def _possible(self) -> Self:
        parts = {"special symbols": SYMBOLS, **reserved(self.kind)}
        least = sum(parts.values())
        if self.vocabulary_size is not None and self.vocabulary_size < least:
            counts = ", ".join(f"{count} {name}" for name, count in parts.items())
            raise ValueError(
                f"tokenizer.vocabulary_size must be at least {least} ({counts}) for kind {self.kind!r}, but is "
                f"{self.vocabulary_size}"
            )
        return self


def reserved(kind: Kind) -> dict[str, int]:
    """Return the number of ids, by name, that every vocabulary of this kind contains, without the special symbols."""
    spelled = {} if kind in WHOLE_WORDS else {"bytes": 256}
    return spelled if kind == "byte_bpe" else {**spelled, "placeholders": len(PLACEHOLDERS)}
