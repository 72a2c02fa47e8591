"""A Marian folder of transformers into a model folder: `import_marian`."""

import re
from pathlib import Path
from typing import NamedTuple

import pydantic
import torch

from dragoman.config import Settings
from dragoman.exporting.marian.folder import CONFIG, GENERATION, MarianFolder, read_marian
from dragoman.exporting.marian.mapping import from_marian
from dragoman.exporting.marian.searching import Symbols, options_from
from dragoman.model import build_model
from dragoman.store import Languages, ModelFiles, check_new_model, save_model
from dragoman.text.languages import LanguageTag
from dragoman.tokenizing.special_tokens import MARIAN_FRAMING

_NAMED = re.compile(r"opus-mt-(?:.*[-_])?([a-z]{2,3})-([a-z]{2,3})$")
"""`opus-mt-en-it`, or `opus-mt-tc-big-en-it`."""


class Conversion(NamedTuple):
    """A folder that was written, and what a person should know of it."""

    folder: Path
    what: str
    """What was written."""
    notes: tuple[str, ...] = ()


class _Tag(Settings):
    tag: LanguageTag


def import_marian(folder: Path, to: Path, languages: Languages | None = None) -> Conversion:
    """Writes a model folder that translates as the Marian folder does. Without `languages`, those that the folder
    states are taken, or its name if that is one of OPUS-MT's.

    Raises:
        CheckpointError, TokenizerError: a file is missing or damaged, or holds what our model cannot; it is named.
        DataError: `to` exists already.
    """
    check_new_model(to)
    marian = read_marian(folder)
    languages = languages or _stated(marian, folder)
    place = GENERATION if (folder / GENERATION).is_file() else CONFIG
    told = marian.architecture
    symbols = Symbols(marian.unknown, told.pad_token_id, told.eos_token_id)
    options, notes = options_from(marian.generation, told.max_position_embeddings, symbols, str(folder / place))
    with torch.device("meta"):
        model = build_model(marian.config, seed=None)
    files = ModelFiles(marian.tokenizers, languages, options, _card(marian, languages, folder), MARIAN_FRAMING)
    save_model(to, model, files, from_marian(marian.weights, marian.config, marian.vocabularies))
    weights = sum(tensor.numel() for tensor in marian.weights.values())
    what = f"a model folder, {languages.source} to {languages.target}: {weights:,} weights"
    if "und" in languages:
        notes.append("the folder does not say its languages; give them, as in: --languages en it")
    return Conversion(to, what, tuple(notes))


def _stated(marian: MarianFolder, folder: Path) -> Languages:
    """The languages that the tokenizer's settings name, else those at the end of a name as OPUS-MT gives it, else
    `und`.
    """
    stated = marian.stated_languages
    named = _NAMED.match(folder.resolve().name)
    for found in (stated, named.groups() if named else ()):
        tags = [_tag(each) for each in found]
        if tags and all(tags):
            return Languages(*map(str, tags))
    return Languages()


def _tag(name: object) -> str | None:
    """A language's tag; None if it is none."""
    try:
        return _Tag.model_validate({"tag": name}).tag
    except pydantic.ValidationError:
        return None


def _card(marian: MarianFolder, languages: Languages, folder: Path) -> str:
    config = marian.config
    return (
        f"# Translation, {languages.source} to {languages.target}\n\n"
        f"The Marian model in {folder.resolve().name}, converted to Dragoman: width {config.d_model}, "
        f"{config.encoder_layers} + {config.decoder_layers} layers. Its authors' licence applies.\n"
    )
