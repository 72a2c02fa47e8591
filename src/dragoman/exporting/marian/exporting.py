"""A model folder into a Marian folder of transformers: `export_marian`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors.torch

from dragoman.config import check
from dragoman.documents import write_json
from dragoman.errors import ConfigError
from dragoman.exporting.marian.folder import (
    ACTIVATIONS,
    CONFIG,
    END,
    GENERATION,
    MODELS,
    PADDING,
    TARGET_VOCABULARY,
    TOKENIZER,
    UNKNOWN,
    VOCABULARY,
    WEIGHTS,
)
from dragoman.exporting.marian.importing import Conversion
from dragoman.exporting.marian.mapping import Rows, Vocabularies, to_marian
from dragoman.exporting.marian.searching import Symbols, generation_for
from dragoman.files import new_folder, write_file
from dragoman.model import ModelConfig
from dragoman.store import StoredModel, check_new_model, load_model, named_weights
from dragoman.tokenizing.framing import MARIAN_FRAMING
from dragoman.tokenizing.sentencepiece import SentencePieceTokenizer
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.translating import SearchOptions

POSITIONS = 512
"""`max_position_embeddings` of OPUS-MT, and the fewest that are written; a model with sinusoids may have more."""


def export_marian(folder: Path, to: Path) -> Conversion:
    """Writes a folder that `MarianMTModel` and `MarianTokenizer` of transformers load, with the same logits.

    Raises:
        CheckpointError: `folder` is not a complete model folder.
        ConfigError: a Marian model cannot hold something of this one; it is named.
        DataError: `to` exists already.
    """
    check_new_model(to)
    stored = load_model(folder)
    if obstacles := list(_obstacles(stored)):
        raise ConfigError(f"{folder} cannot become a Marian folder: {'; '.join(obstacles)}")
    options = check(stored.files.generation, str(folder), SearchOptions)
    ids = [_ids(tokenizer, _padding(stored.tokenizers)) for tokenizer in stored.tokenizers]
    vocabularies = Vocabularies(
        *(_rows(tokenizer, each) for tokenizer, each in zip(stored.tokenizers, ids, strict=True))
    )
    generation, notes = generation_for(options, Symbols(*(ids[1][name] for name in (UNKNOWN, PADDING, END))))
    positions = max(POSITIONS, options.max_source_tokens + 1, generation["max_length"])
    weights = to_marian(named_weights(stored.model), stored.config, vocabularies)
    with new_folder(to) as aside:
        write_json(aside / CONFIG, _config(stored.config, ids, positions))
        write_json(aside / GENERATION, generation)
        write_file(aside / WEIGHTS, safetensors.torch.save(weights, metadata={"format": "pt"}))
        _write_tokenizers(aside, stored, ids)
    count = sum(tensor.numel() for tensor in weights.values())
    return Conversion(to, f"a Marian folder of transformers: {count:,} weights", tuple(notes))


def _obstacles(stored: StoredModel) -> Iterator[str]:
    """What a Marian model cannot hold, in the words of the settings."""
    config = stored.config
    if config.family != "encoder_decoder":
        yield "it does not translate, as every Marian model does"
        return
    wanted: dict[str, Any] = {
        "positions": "sinusoidal",
        "position_base": 10_000.0,
        "norm": "layer",
        "norm_position": "post",
        "norm_epsilon": 1e-5,
        "final_norm": False,
        "embedding_norm": False,
        "bias": True,
    }
    for name, value in wanted.items():
        if getattr(config, name) != value:
            yield f"model.{name} must be {value!r}, but is {getattr(config, name)!r}"
    if config.activation not in ACTIVATIONS.values():
        yield f"model.activation must be relu, gelu or silu, but is {config.activation!r}"
    if config.kv_heads not in (None, config.heads):
        yield f"model.kv_heads must be as many as model.heads, but is {config.kv_heads}"
    if stored.files.framing != MARIAN_FRAMING:
        yield "its sentences stand between other symbols than Marian's"
    if stored.files.tokenizers is None:
        yield "it has no tokenizer"
        return
    for side, tokenizer in stored.files.tokenizers._asdict().items():
        if not isinstance(tokenizer, SentencePieceTokenizer):
            yield f"its {side} tokenizer is of kind {tokenizer.kind!r}, and only models of SentencePiece can be written"


def _padding(tokenizers: Tokenizers) -> int:
    """The id of padding on both sides: the last one of the smaller vocabulary. Our start symbol is left out."""
    return min(tokenizer.size for tokenizer in tokenizers) - 2


def _ids(tokenizer: Any, padding: int) -> dict[str, int]:
    """The id of each piece in the folder to write: the end symbol first, as in OPUS-MT, then the unknown one."""
    names = [END, UNKNOWN, *tokenizer.vocabulary.pieces]
    return {name: number for number, name in enumerate([*names[:padding], PADDING, *names[padding:]])}


def _rows(tokenizer: Any, ids: dict[str, int]) -> Rows:
    """For each of our ids, the one in the folder to write."""
    return [ids[UNKNOWN], ids[PADDING], None, ids[END], *(ids[piece] for piece in tokenizer.vocabulary.pieces)]


def _config(config: ModelConfig, ids: list[dict[str, int]], positions: int) -> dict[str, Any]:
    padding, end = ids[1][PADDING], ids[1][END]
    activation = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == config.activation)
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": len(ids[0]),
        "decoder_vocab_size": len(ids[1]),
        "d_model": config.d_model,
        **{f"{stack}_layers": getattr(config, f"{stack}_layers") for stack in ("encoder", "decoder")},
        **{f"{stack}_attention_heads": config.heads for stack in ("encoder", "decoder")},
        **{f"{stack}_ffn_dim": config.d_ff for stack in ("encoder", "decoder")},
        "activation_function": activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "scale_embedding": config.embedding_scale,
        "share_encoder_decoder_embeddings": config.tied == "all",
        "tie_word_embeddings": config.tied != "none",
        "max_position_embeddings": positions,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "pad_token_id": padding,
        "decoder_start_token_id": padding,
        "eos_token_id": end,
        "bos_token_id": end,
        "forced_eos_token_id": end,
        "dtype": "float32",
    }


def _write_tokenizers(folder: Path, stored: StoredModel, ids: list[dict[str, int]]) -> None:
    separate = stored.config.tied != "all" and not stored.tokenizers.joint
    for name, tokenizer in zip(MODELS, stored.tokenizers, strict=True):
        assert isinstance(tokenizer, SentencePieceTokenizer), "refused before"
        write_file(folder / name, tokenizer.model)
    for name, table in zip((VOCABULARY, TARGET_VOCABULARY)[: 1 + separate], ids, strict=False):
        write_file(folder / name, json.dumps(table, ensure_ascii=False, indent=2) + "\n")
    languages = {side: None if tag == "und" else tag for side, tag in stored.languages._asdict().items()}
    write_json(
        folder / TOKENIZER,
        {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": languages["source"],
            "target_lang": languages["target"],
            "separate_vocabs": separate,
            "model_max_length": POSITIONS,
        },
    )
