"""A Marian model of transformers into a model folder, or a model folder into one of transformers."""

from collections.abc import Sequence
from pathlib import Path

from dragoman.config import Settings, check
from dragoman.errors import CheckpointError, ConfigError
from dragoman.exporting.marian.exporting import export_marian
from dragoman.exporting.marian.folder import is_marian
from dragoman.exporting.marian.importing import Conversion, import_marian
from dragoman.store import Languages, find_model
from dragoman.text.reading.language_tags import LanguageTag


class _Languages(Settings):
    source: LanguageTag
    target: LanguageTag


def convert(folder: Path | str, to: Path | str, languages: Sequence[str] | None = None) -> Conversion:
    """Converts a Marian model of transformers into a model folder, or a model folder into one of transformers: what
    `folder` holds decides. `languages` are source and target of a Marian model, where its folder does not say them.

    Raises:
        CheckpointError, TokenizerError: a file is missing or damaged, or holds what our model cannot; it is named.
        ConfigError: the model holds what a Marian model cannot; it is named. Or languages are not two tags, or given
            for a model that knows its own.
        DataError: `to` exists already.
        MissingExtra: the SentencePiece library is not installed.
    """
    if is_marian(Path(folder)):
        return import_marian(Path(folder), Path(to), _pair(languages) if languages is not None else None)
    try:
        model = find_model(folder)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; convert takes a model, or a Marian folder of transformers") from None
    if languages is not None:
        raise ConfigError(f"{folder} knows its languages; leave out --languages")
    return export_marian(model, Path(to))


def _pair(languages: Sequence[str]) -> Languages:
    if len(languages) != 2:
        raise ConfigError(f"languages are two tags, of source and target, but {len(languages)} were given")
    found = check(dict(zip(Languages._fields, languages, strict=True)), "--languages", _Languages)
    return Languages(found.source, found.target)
