"""A Marian folder of transformers into a model folder: `import_marian`.

A model folder into a Marian folder of transformers: `export_marian`.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pydantic
import safetensors.torch
import torch

from dragoman.config import Settings, check
from dragoman.documents import write_json
from dragoman.errors import ConfigError
from dragoman.exporting.marian_folder import (
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
    MarianFolder,
    Rows,
    Vocabularies,
    from_marian,
    read_marian,
    to_marian,
)
from dragoman.exporting.marian_search import Symbols, generation_for, options_from
from dragoman.exporting.proof import Proof, never_written, prove
from dragoman.exporting.transformers_models import Running, refuse_missing
from dragoman.files import new_folder, write_file
from dragoman.inference.options import SearchOptions
from dragoman.model import ModelConfig, build_model
from dragoman.store import Languages, ModelFiles, StoredModel, check_new_model, named_weights, save_model
from dragoman.text.languages import LanguageTag
from dragoman.tokenizing.sentencepiece import SentencePieceTokenizer
from dragoman.tokenizing.special_tokens import MARIAN_FRAMING
from dragoman.tokenizing.tokenizers import Tokenizers

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


POSITIONS = 512
"""`max_position_embeddings` of OPUS-MT, and the fewest that are written; a model with sinusoids may have more."""


def export_marian(stored: StoredModel, to: Path, texts: Sequence[str]) -> tuple[Proof, list[str]]:
    """Writes a folder that `MarianMTModel` and `MarianTokenizer` of transformers load, after the proof that it
    translates as our model does. Returns that, and what a person should know.

    Raises:
        ConfigError: a Marian model cannot hold something of this one; it is named. Or the proof failed.
        DataError: `to` exists already.
        MissingExtra: transformers is not installed.
    """
    if obstacles := list(_obstacles(stored)):
        raise ConfigError(f"{stored.folder} cannot become a Marian folder: {'; '.join(obstacles)}")
    refuse_missing()
    options = check(stored.files.generation, str(stored.folder), SearchOptions)
    ids = [_ids(tokenizer, _padding(stored.tokenizers)) for tokenizer in stored.tokenizers]
    vocabularies = Vocabularies(
        *(_rows(tokenizer, each) for tokenizer, each in zip(stored.tokenizers, ids, strict=True))
    )
    generation, notes = generation_for(options, Symbols(*(ids[1][name] for name in (UNKNOWN, PADDING, END))))
    positions = max(POSITIONS, options.max_source_tokens + 1, generation["max_length"])
    weights = to_marian(named_weights(stored.model), stored.config, vocabularies)
    with new_folder(to) as aside:
        sizes = len(ids[0]), len(ids[1])
        write_json(aside / CONFIG, {**marian_config(stored.config, sizes, positions), **_symbols(ids[1])})
        write_json(aside / GENERATION, generation)
        write_file(aside / WEIGHTS, safetensors.torch.save(weights, metadata={"format": "pt"}))
        _write_tokenizers(aside, stored, ids)
        proof = prove(stored, _run(aside, vocabularies, stored), texts, "transformers")
    return proof, notes


def _run(folder: Path, rows: Vocabularies, stored: StoredModel) -> Running:
    import transformers

    tokenizer: Any = transformers.MarianTokenizer.from_pretrained(folder)
    return Running(folder, tokenizer, tokenizer, rows, never_written(stored.tokenizers, stored.files.framing))


def _obstacles(stored: StoredModel) -> Iterator[str]:
    """What a Marian folder cannot hold, in the words of the settings."""
    yield from marian_obstacles(stored.config)
    if stored.config.family != "encoder_decoder":
        return
    if stored.files.framing != MARIAN_FRAMING:
        yield "its sentences stand between other symbols than Marian's"


def marian_obstacles(config: ModelConfig) -> Iterator[str]:
    """What `MarianMTModel` cannot hold, in the words of the settings."""
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


def marian_config(config: ModelConfig, sizes: tuple[int, int], positions: int) -> dict[str, Any]:
    """The content of `config.json` but for symbols. `sizes` are those of the vocabularies there."""
    activation = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == config.activation)
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": sizes[0],
        "decoder_vocab_size": sizes[1],
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
        "dtype": "float32",
    }


def _symbols(ids: dict[str, int]) -> dict[str, int]:
    padding, end = ids[PADDING], ids[END]
    return {
        "pad_token_id": padding,
        "decoder_start_token_id": padding,
        "eos_token_id": end,
        "bos_token_id": end,
        "forced_eos_token_id": end,
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
