"""A Marian model of transformers into a model folder."""

from collections.abc import Sequence
from pathlib import Path

from dragoman.config import Settings, check
from dragoman.errors import CheckpointError, ConfigError
from dragoman.exporting.marian import Conversion, import_marian
from dragoman.exporting.marian_folder import is_marian
from dragoman.store import Languages, find_model
from dragoman.text.languages import LanguageTag


class _Languages(Settings):
    source: LanguageTag
    target: LanguageTag


def convert(folder: Path | str, to: Path | str, languages: Sequence[str] | None = None) -> Conversion:
    """Converts a Marian model of transformers into a model folder. `languages` are its source and target, where its
    folder does not say them. `export` is the way back.

    Raises:
        CheckpointError, TokenizerError: a file is missing or damaged, or holds what our model cannot; it is named.
        ConfigError: languages are not two tags, or the folder is a model of Dragoman.
        DataError: `to` exists already.
        MissingExtra: the SentencePiece library is not installed.
    """
    if is_marian(Path(folder)):
        return import_marian(Path(folder), Path(to), _pair(languages) if languages is not None else None)
    try:
        find_model(folder)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; convert takes a Marian folder of transformers") from None
    raise ConfigError(f"{folder} is a model of Dragoman already; dragoman export writes it for other toolkits")


def _pair(languages: Sequence[str]) -> Languages:
    if len(languages) != 2:
        raise ConfigError(f"languages are two tags, of source and target, but {len(languages)} were given")
    found = check(dict(zip(Languages._fields, languages, strict=True)), "--languages", _Languages)
    return Languages(found.source, found.target)
