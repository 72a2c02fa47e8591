"""`convert`: a model of transformers, from a folder or the hub, becomes a model folder."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from dragoman.directions import listed
from dragoman.model.shapes import count_weights
from dragoman.model.transformer import build_model
from dragoman.store.description import ModelFiles
from dragoman.store.foreign import ForeignModel, ForeignSource, find_source
from dragoman.store.hub import FAMILIES
from dragoman.store.m2m100 import read_m2m100
from dragoman.store.marian import read_marian
from dragoman.store.marian_weights import from_marian
from dragoman.store.mbart import read_mbart
from dragoman.store.saving import check_new_model, save_model

_READERS = {"marian": read_marian, "m2m_100": read_m2m100, "mbart": read_mbart}


class Conversion(NamedTuple):
    """A folder that was written, and notes for its user."""

    folder: Path
    what: str
    """Description of the new folder."""
    notes: tuple[str, ...] = ()


def convert(
    folder: Path | str,
    to: Path | str,
    languages: Sequence[str] | None = None,
    texts: Iterable[str] | None = None,
) -> Conversion:
    """Convert a model of transformers (Marian, M2M-100, SMaLL-100, NLLB-200 or mBART-50), in a folder or on the hub
    (`hub:OWNER/NAME`), into a model folder, which translates as it does.

    `languages` of a Marian model are source and target, by default those that its folder or its name states. Those of
    a model of several languages are the ones to keep: pieces of other scripts are left out, and if `texts` (lines) are
    given, all pieces that these lack, but for single characters.

    Raises:
        CheckpointError, TokenizerError: a file is missing or damaged, or holds what our model cannot; it is named.
        ConfigError: languages are not tags, or the folder is a model of Dragoman.
        DecodeError: the model lacks one of the languages.
        DataError: `to` exists already.
        MissingExtra: the SentencePiece library is not installed.
    """
    to = Path(to)
    check_new_model(to)
    source = find_source(folder)
    model = _READERS[source.kind](source.folder, languages, texts)
    with torch.device("meta"):
        built = build_model(model.config, seed=None)
    between = _languages(model.files)
    weights = from_marian(model.weights, model.config, model.vocabularies)
    save_model(
        to, built, model.files._replace(tokenizers=model.tokenizers, card=_card(model, source, between)), weights
    )
    what = f"a model folder, {between}: {count_weights(model.config):,} weights"
    return Conversion(to, what, (*model.notes, *_licence_notes(source)))


def _languages(files: ModelFiles) -> str:
    if files.directions is not None:
        sides = files.directions.source, files.directions.target
        if any(len(side) == 1 for side in sides):
            return " to ".join(side[0] if len(side) == 1 else f"{len(side)} languages" for side in sides)
        return f"between {len(files.directions.source)} languages"
    return " to ".join(files.languages or ())


def _licence_notes(source: ForeignSource) -> Iterator[str]:
    if source.licence or source.is_fetched:
        forbids = ", which forbids commercial use" if re.search(r"(^|-)nc(-|$)", source.licence or "") else ""
        yield f"licence: {source.licence or 'not stated; ask its authors'}{forbids}"


def _card(model: ForeignModel, source: ForeignSource, between: str) -> str:
    config, licence = model.config, source.licence or "the one that its authors chose"
    tags, about = listed(list(model.tokenizers.source.languages)), ""
    if model.files.directions is not None:
        about = f"\nIts languages: {tags}.\n"
    elif tags:
        about = f"\nEach text begins with the tag of its target language, such as >>ita<<: {tags}.\n"
    return (
        f"# Translation, {between}\n\n"
        f"The {FAMILIES[source.kind]} model in {source.name}, converted to Dragoman: width {config.d_model}, "
        f"{config.encoder_layers} + {config.decoder_layers} layers. Its licence: {licence}.\n{about}"
    )
