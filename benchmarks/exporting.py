"""Which settings travel to CTranslate2 and to Hugging Face transformers, and how exactly?

    python benchmarks/exporting.py [--out results.json]

Small models with random weights, one for each combination of settings, are exported to both. An export proves itself:
greedy translations must be the same, and log-probabilities within 1e-4. The table has the largest difference, or the
words in which an export was refused.
"""

import argparse
import json
import tempfile
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, get_args

import torch
from command_line import command_line, figures_file, markdown

import dragoman
from dragoman.errors import ConfigError
from dragoman.exporting import Target
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import build_model
from dragoman.store.description import Languages, ModelFiles
from dragoman.store.saving import save_model
from dragoman.text.phrasebook import Sentence, read_phrasebook
from dragoman.tokenizing.special_tokens import SYMBOLS
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

SIZES = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "heads": 4, "d_ff": 48}
PRE, POST = {"norm_position": "pre", "final_norm": True}, {"norm_position": "post", "final_norm": False}
COMBINATIONS: list[dict[str, Any]] = [
    *({"preset": preset, "tied": tied} for preset, tied in product(("modern", "paper"), ("none", "target", "all"))),
    *(
        {"preset": preset, "activation": activation}
        for preset, activation in product(("modern", "paper"), ("relu", "gelu", "silu", "swiglu", "geglu"))
    ),
    *(
        {"preset": preset, "positions": positions}
        for preset, positions in product(("modern", "paper"), ("sinusoidal", "learned", "rotary"))
    ),
    *({"preset": preset, "norm": norm} for preset, norm in product(("modern", "paper"), ("layer", "rms"))),
    *({"preset": preset, **place} for preset, place in product(("modern", "paper"), (PRE, POST))),
    {"preset": "paper", "norm_position": "post", "final_norm": True},
    *({"preset": preset, "kv_heads": heads} for preset, heads in product(("modern", "paper"), (1, 2))),
    *({"preset": preset, "bias": bias} for preset, bias in product(("modern", "paper"), (True, False))),
    *({"preset": preset, "output_bias": True} for preset in ("modern", "paper")),
    *({"preset": preset, "embedding_norm": True} for preset in ("modern", "paper")),
    *({"preset": preset, "embedding_scale": False} for preset in ("modern", "paper")),
    *({"preset": preset, "position_base": 500.0} for preset in ("modern", "paper")),
    *({"preset": preset, "norm_epsilon": 1e-3} for preset in ("modern", "paper")),
    *({"preset": preset, "encoder_layers": 3, "decoder_layers": 1} for preset in ("modern", "paper")),
]
"""Settings of the model beside `SIZES`; the first of them are both presets as they are."""
KINDS = ("bpe", "unigram", "byte_bpe", "character", "word")
"""Tokenizers, each with separate vocabularies and with a joint one."""


def tried() -> list[tuple[dict[str, Any], str]]:
    """Every different model once, with its tokenizer: a setting that spells out what the preset has adds none."""
    models = [(settings, "bpe") for settings in COMBINATIONS]
    models += [({"preset": "paper", "tied": tied}, kind) for kind, tied in product(KINDS, ("target", "all"))]
    vocabularies = {"source_vocabulary": 600, "target_vocabulary": 600}
    found: dict[tuple[str, str], tuple[dict[str, Any], str]] = {}
    for settings, kind in models:
        config = ModelConfig.model_validate({"tied": "target", **SIZES, **vocabularies, **settings})
        found.setdefault((kind, config.model_dump_json(exclude={"preset"})), (settings, kind))
    return list(found.values())


def make(folder: Path, settings: dict[str, Any], kind: str = "bpe") -> Path:
    """A model folder with random weights, whose outputs depend on the text."""
    tokenizers = learn(kind, settings.get("tied") == "all")
    sizes = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    model = build_model(ModelConfig.model_validate({**SIZES, **sizes, **settings}), seed=4)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:  # fresh ones are 0 or 1
                weight.add_(torch.randn(weight.shape, generator=generator) / 4)
            elif "output" in name:
                weight.mul_(3)
            if name == "output_bias" and kind in ("bpe", "unigram"):
                weight[SYMBOLS : SYMBOLS + 256] = -30  # as after training, bytes that are no character are unlikely
    save_model(folder, model, ModelFiles(tokenizers, Languages("en", "it")))
    return folder


@cache
def learn(kind: str, joint: bool) -> Tokenizers:
    pairs = [(pair.source, pair.target) for pair in phrases("test")]
    size = {} if kind in ("word", "character") else {"vocabulary_size": 600}
    settings = TokenizerSettings.model_validate({"kind": kind, "joint": joint, "minimum_frequency": 1, **size})
    return learn_tokenizers(lambda: pairs, settings)


@cache
def phrases(part: str) -> list[Sentence]:
    return getattr(read_phrasebook(), part)[:200]


def outcome(model: Path, target: Target, out: Path) -> str:
    """The largest difference, or why the export was refused."""
    texts = [pair.source for pair in phrases("new_patterns")[:8]]
    try:
        return f"{dragoman.export(model, target, out, texts).proof.largest_difference:.0e}"
    except ConfigError as error:
        return f"refused: {str(error).rpartition(': ')[2] if ': ' in str(error) else error}"


def told(settings: dict[str, Any]) -> str:
    """Settings as `--set` takes them.

    >>> told({"preset": "paper", "bias": False})
    'paper, bias = false'
    """
    rest = [f"{name} = {json.dumps(value).strip(chr(34))}" for name, value in settings.items() if name != "preset"]
    return ", ".join([settings["preset"], *rest])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=figures_file)
    options = parser.parse_args()
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as name:
        for number, (settings, kind) in enumerate(tried()):
            model = make(Path(name) / f"model{number}", settings, kind)
            found = [outcome(model, target, Path(name) / f"{target}{number}") for target in get_args(Target)]
            rows.append([told(settings) + (f", {kind}" if kind != "bpe" else ""), *found])
    print(markdown(["model", *get_args(Target)], rows))
    if options.out:
        facts = {"command": command_line(), "columns": ["model", *get_args(Target)], "rows": rows}
        options.out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
