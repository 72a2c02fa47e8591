"""Exports of many settings to CTranslate2, to Hugging Face transformers and to a web page, and their accuracy.

    python benchmarks/exporting.py [--out results.json]

Small models with random weights, one for each combination of settings, are exported to all three. An export proves
itself: greedy translations must be the same, and log-probabilities within 1e-4. The table has the largest difference,
or the reason of a refusal. Without Node, pages are not proved.
"""

import json
import tempfile
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, get_args

import torch
from command_line import markdown, new_parser, write_figures

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
"""Settings of the model in addition to `SIZES`; the first of them are both presets as they are."""
KINDS = ("bpe", "unigram", "byte_bpe", "character", "word")
"""Tokenizers, each with separate vocabularies and with a joint one."""


def distinct_models() -> list[tuple[dict[str, Any], str]]:
    """Return every different model once, with its tokenizer. A setting that repeats a preset's value adds none."""
    models = [(settings, "bpe") for settings in COMBINATIONS]
    models += [({"preset": "paper", "tied": tied}, kind) for kind, tied in product(KINDS, ("target", "all"))]
    vocabularies = {"source_vocabulary": 600, "target_vocabulary": 600}
    distinct: dict[tuple[str, str], tuple[dict[str, Any], str]] = {}
    for settings, kind in models:
        config = ModelConfig.model_validate({"tied": "target", **SIZES, **vocabularies, **settings})
        distinct.setdefault((kind, config.model_dump_json(exclude={"preset"})), (settings, kind))
    return list(distinct.values())


def make(folder: Path, settings: dict[str, Any], kind: str = "bpe") -> Path:
    """Write a model folder with random weights, whose outputs depend on the text."""
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
    """Learn tokenizers on a few sentences of the phrasebook."""
    pairs = [(pair.source, pair.target) for pair in phrases("test")]
    size = {} if kind in ("word", "character") else {"vocabulary_size": 600}
    settings = TokenizerSettings.model_validate({"kind": kind, "joint": joint, "minimum_frequency": 1, **size})
    return learn_tokenizers(lambda: pairs, settings)


@cache
def phrases(part: str) -> list[Sentence]:
    """Return sentences of a part of the phrasebook."""
    return getattr(read_phrasebook(), part)[:200]


def outcome(model: Path, target: Target, out: Path) -> str:
    """Export a model, and return the largest difference or the reason of a refusal."""
    texts = [pair.source for pair in phrases("new_patterns")[:8]]
    try:
        proof = dragoman.export(model, target, out, texts).proof
        return f"{proof.largest_difference:.0e}" if proof else "not proved"
    except ConfigError as error:
        return f"refused: {str(error).rpartition(': ')[2] if ': ' in str(error) else error}"


def as_words(settings: dict[str, Any]) -> str:
    """Return settings as `--set` takes them.

    >>> as_words({"preset": "paper", "bias": False})
    'paper, bias = false'
    """
    rest = [f"{name} = {json.dumps(value).strip(chr(34))}" for name, value in settings.items() if name != "preset"]
    return ", ".join([settings["preset"], *rest])


def main() -> None:
    options = new_parser(__doc__).parse_args()
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as name:
        for number, (settings, kind) in enumerate(distinct_models()):
            model = make(Path(name) / f"model{number}", settings, kind)
            outcomes = [outcome(model, target, Path(name) / f"{target}{number}") for target in get_args(Target)]
            rows.append([as_words(settings) + (f", {kind}" if kind != "bpe" else ""), *outcomes])
    columns = ["model", *get_args(Target)]
    print(markdown(columns, rows))
    write_figures(options.out, columns=columns, rows=rows)


if __name__ == "__main__":
    main()
