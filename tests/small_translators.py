"""Small translators of random weights, and texts for them."""

import dataclasses
import itertools
import random
import re
from pathlib import Path
from typing import Any

import torch

from dragoman.directions import Directions
from dragoman.inference.options import SearchOptions
from dragoman.inference.translator import Translator
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import EncoderDecoder, build_model
from dragoman.store.description import Languages, ModelFiles, StoredModel, languages_of
from dragoman.store.saving import save_model
from dragoman.surface.conventions import Conventions, LanguageConventions
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

SOURCES = [
    "the red cat sees the old dog .",
    "where is the station ?",
    "I drink water and you eat bread .",
    "good morning , Anna !",
    "the station is old and the bread is red .",
]
TARGETS = [
    "il gatto rosso vede il vecchio cane .",
    "dov'è la stazione ?",
    "io bevo acqua e tu mangi pane .",
    "buongiorno , Anna !",
    "la stazione è vecchia e il pane è rosso .",
]

GERMAN = [
    "die rote Katze sieht den alten Hund .",
    "wo ist der Bahnhof ?",
    "ich trinke Wasser und du isst Brot .",
    "guten Morgen , Anna !",
    "der Bahnhof ist alt und das Brot ist rot .",
]
PAIRS = (("en", "it"), ("it", "en"), ("en", "de"), ("de", "en"))
"""The directions of `several`; it-de and de-it were never trained."""


def stored(kind: str = "word", **settings: object) -> StoredModel:
    words = TokenizerSettings.model_validate({"kind": kind, "minimum_frequency": 1, "joint": False})
    tokenizers = Tokenizers(learn_tokenizer(SOURCES * 2, words), learn_tokenizer(TARGETS * 2, words))
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "heads": 2, "d_ff": 24, "tied": "none"}
    vocabularies = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    config = ModelConfig(**{"preset": "paper", "size": "tiny", **sizes, **vocabularies, **settings})
    model = build_model(config, seed=9)
    assert isinstance(model, EncoderDecoder)
    with torch.no_grad():
        model.output.mul_(4)  # fresh weights find all tokens alike; these have opinions
    generation = {"beam_size": 3, "length_ratio": 1.0, "length_extra": 5}
    return StoredModel(model.eval(), config, ModelFiles(tokenizers, Languages("en", "it"), generation), Path("model"))


def several(
    target_prefix: bool = False,
    kind: str = "word",
    directions: Directions | None = None,
    **settings: object,
) -> StoredModel:
    """Build a model of English, Italian and German with their symbols; `target_prefix` is as in `Framing`."""
    directions = directions or Directions.of(PAIRS)
    learned = learn_tokenizer(
        (SOURCES + TARGETS + GERMAN) * 3,
        TokenizerSettings.model_validate({"kind": kind, "minimum_frequency": 1, "vocabulary_size": 500}),
    )
    languages = tuple(dict.fromkeys((*directions.source, *directions.target)))
    tokenizer = Tokenizer(learned.vocabulary.but(languages=languages))
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "heads": 2, "d_ff": 24, "tied": "none"}
    vocabularies = {"source_vocabulary": tokenizer.size, "target_vocabulary": tokenizer.size}
    config = ModelConfig(**{"preset": "paper", "size": "tiny", **sizes, **vocabularies, **settings})
    model = build_model(config, seed=9)
    assert isinstance(model, EncoderDecoder)
    with torch.no_grad():
        model.output.mul_(4)
    files = ModelFiles(
        Tokenizers(tokenizer, tokenizer),
        languages_of(directions),
        {"beam_size": 2, "length_ratio": 1.0, "length_extra": 5},
        framing=dataclasses.replace(DEFAULT_FRAMING, target_prefix=target_prefix),
        conventions=LanguageConventions(
            languages={name: Conventions(sentences=0) for name in languages}, placeholders=True
        ),
        directions=directions,
    )
    return StoredModel(model.eval(), config, files, Path("several"))


def make_several(target_prefix: bool = False, kind: str = "word", native: bool = True) -> Translator:
    return Translator(several(target_prefix, kind), device="cpu", precision="float32", native=native)


def save_several(folder: Path, target_prefix: bool = False, **changes: Any) -> Path:
    """Write the model of `several` as a model folder."""
    model = several(target_prefix, **changes)
    save_model(folder, model.model, model.files)
    return folder


def asked(**settings: object) -> SearchOptions:
    """Options for models that seldom find an end."""
    return SearchOptions(**{"length_ratio": 1.0, "length_extra": 5, **settings})  # pyright: ignore[reportArgumentType]


def make(kind: str = "word", **settings: object) -> Translator:
    return Translator(stored(kind, **settings), device="cpu", precision="float32")


def make_plain(kind: str = "word") -> Translator:
    """One that runs in PyTorch, so that its weights can be changed."""
    return Translator(stored(kind), device="cpu", precision="float32", native=False)


def lines(count: int) -> list[str]:
    """So many lines of words and marks, none of marks alone."""
    draw = random.Random(1)
    vocabulary = " ".join(SOURCES).split()
    drawn = (" ".join(draw.choices(vocabulary, k=draw.randint(1, 12))) for _ in itertools.count())
    return [*itertools.islice((line for line in drawn if re.search(r"\w", line)), count)]
