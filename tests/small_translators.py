"""Small translators of random weights, and texts for them."""

import itertools
import random
import re
from pathlib import Path

import torch

from dragoman.inference.options import SearchOptions
from dragoman.inference.translator import Translator
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import EncoderDecoder, build_model
from dragoman.store.description import Languages, ModelFiles, StoredModel
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
