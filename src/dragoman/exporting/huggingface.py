"""Export of a model folder to a `MarianMTModel` of Hugging Face transformers: `export_huggingface`.

A model converted from a Marian folder is exported as one, with Marian's order of ids and its SentencePiece models.
Other models keep their ids and their tokenizer, as a `tokenizer.json`.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from dragoman.config import check
from dragoman.errors import ConfigError, optional
from dragoman.exporting.portable_tokenizer import came_from_marian, portable, tokenizer_obstacles
from dragoman.exporting.proof import Ids, Proof, prove, suppressed_ids
from dragoman.exporting.translate_script import load_transformers
from dragoman.files import write_file
from dragoman.inference.options import DRAWS, SearchOptions
from dragoman.model.config import ModelConfig
from dragoman.serialization import write_json
from dragoman.store.description import CONFIG, GENERATION, WEIGHTS, StoredModel
from dragoman.store.foreign import ACTIVATIONS, END, PADDING, TOKENIZER, UNKNOWN
from dragoman.store.marian import MODELS, TARGET_VOCABULARY, VOCABULARY
from dragoman.store.marian_search import MAX_LENGTH, Symbols, length_penalty_notes
from dragoman.store.marian_weights import Vocabularies, to_marian
from dragoman.store.tensors import named_weights
from dragoman.tokenizing.sentencepiece import SentencePieceTokenizer
from dragoman.tokenizing.special_tokens import Framing
from dragoman.tokenizing.tokenizer import Tokenizer

LIBRARY, TARGET = "tokenizer.json", "target_tokenizer"
POSITIONS = 512
"""`max_position_embeddings` of OPUS-MT, and the fewest that are written; a model with sinusoids may have more."""


@dataclass(frozen=True)
class FolderLayout:
    """Parts that differ between a Marian folder and one with our own ids and tokenizer."""

    rows: Vocabularies
    positions: int
    symbols: dict[str, int | None]
    generation: dict[str, Any]
    notes: list[str]
    write_tokenizers: Callable[[Path], None]


def export_huggingface(stored: StoredModel, folder: Path, texts: Sequence[str]) -> tuple[Proof, list[str]]:
    """Write a transformers model into a folder. Return the proof that it translates as our model does, and notes.

    Raises:
        ConfigError: `MarianMTModel` does not support a part of this model, or the proof failed; the message names it.
        MissingExtra: transformers is not installed.
    """
    is_marian = came_from_marian(stored)
    if reasons := [*obstacles(stored.config), *tokenizer_obstacles(stored)]:
        kind = "a Marian folder" if is_marian else "transformers"
        raise ConfigError(f"{stored.folder} cannot be exported to {kind}: {'; '.join(reasons)}")
    with optional("transformers", "huggingface"):
        import transformers  # noqa: F401
    options = check(stored.files.generation, str(stored.folder), SearchOptions)
    layout = marian_layout(stored, options) if is_marian else own_layout(stored, options)
    weights = to_marian(named_weights(stored.model), stored.config, layout.rows)
    write_json(folder / CONFIG, {**_config(stored.config, layout), **layout.symbols})
    write_json(folder / GENERATION, layout.generation)
    write_file(folder / WEIGHTS, safetensors.torch.save(weights, metadata={"format": "pt"}))
    layout.write_tokenizers(folder)
    suppressed = suppressed_ids(stored.tokenizers, stored.files.framing)
    return prove(stored, TransformersModel(folder, layout.rows, suppressed), texts, "transformers"), layout.notes


def obstacles(config: ModelConfig) -> Iterator[str]:
    """Yield the parts of an architecture that `MarianMTModel` does not support, by the names of the settings."""
    required: dict[str, Any] = {
        "positions": "sinusoidal",
        "position_base": 10_000.0,
        "position_offset": 0,
        "norm": "layer",
        "norm_position": "post",
        "norm_epsilon": 1e-5,
        "final_norm": False,
        "embedding_norm": False,
        "bias": True,
    }
    for name, value in required.items():
        if getattr(config, name) != value:
            yield f"model.{name} must be {value!r}, but is {getattr(config, name)!r}"
    if config.activation not in ACTIVATIONS.values():
        yield f"model.activation must be relu, gelu or silu, but is {config.activation!r}"
    if config.kv_heads not in (None, config.heads):
        yield f"model.kv_heads must equal model.heads, but is {config.kv_heads}"


def _config(config: ModelConfig, layout: FolderLayout) -> dict[str, Any]:
    """Return the content of `config.json` without the special symbols."""
    activation = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == config.activation)
    sizes = [sum(row is not None for row in rows) for rows in layout.rows]
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
        "max_position_embeddings": layout.positions,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "dtype": "float32",
    }


def own_layout(stored: StoredModel, options: SearchOptions) -> FolderLayout:
    """Return a layout with our ids, and our tokenizer as a `tokenizer.json`."""
    framing = stored.files.framing
    longest = int(options.length_ratio * options.max_source_tokens) + options.length_extra
    symbols = {
        "pad_token_id": framing.padding,
        "bos_token_id": framing.target_start,
        "eos_token_id": framing.target_end,
        "decoder_start_token_id": framing.target_start,
    }
    search, notes = _search(options, longest)
    generation = {**search, "suppress_tokens": suppressed_ids(stored.tokenizers, framing), **symbols}

    def write_tokenizers(folder: Path) -> None:
        _write_tokenizer(folder, stored.tokenizers.source, framing)
        if not stored.tokenizers.joint:
            (folder / TARGET).mkdir()
            _write_tokenizer(folder / TARGET, stored.tokenizers.target, framing)

    return FolderLayout(
        rows=Vocabularies(*(range(tokenizer.size) for tokenizer in stored.tokenizers)),
        positions=max(POSITIONS, longest + 2),
        symbols={**symbols, "forced_eos_token_id": None},
        generation=generation,
        notes=notes,
        write_tokenizers=write_tokenizers,
    )


def _write_tokenizer(folder: Path, tokenizer: Tokenizer, framing: Framing) -> None:
    unknown, padding, start, end = tokenizer.vocabulary.specials.names
    write_file(folder / LIBRARY, portable(tokenizer, framing).to_str())
    facts = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": unknown,
        "pad_token": padding,
        "bos_token": start,
        "eos_token": end,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # text that is spelled like a symbol is still text
        "model_input_names": ["input_ids", "attention_mask"],
    }
    write_json(folder / TOKENIZER, facts)


def marian_layout(stored: StoredModel, options: SearchOptions) -> FolderLayout:
    """Return a layout with Marian's order of ids, and its SentencePiece models."""
    tokenizers = [tokenizer for tokenizer in stored.tokenizers if isinstance(tokenizer, SentencePieceTokenizer)]
    # Padding has one id on both sides: the last one of the smaller vocabulary. Our start symbol is dropped.
    padding = min(tokenizer.size for tokenizer in tokenizers) - 2
    ids = [_ids(tokenizer, padding) for tokenizer in tokenizers]
    rows = [
        [table[UNKNOWN], table[PADDING], None, table[END], *(table[piece] for piece in tokenizer.vocabulary.pieces)]
        for tokenizer, table in zip(tokenizers, ids, strict=True)
    ]
    end = ids[1][END]
    generation, notes = generation_for(options, Symbols(ids[1][UNKNOWN], padding, end, padding))

    def write_tokenizers(folder: Path) -> None:
        separate = stored.config.tied != "all" and not stored.tokenizers.joint
        for name, tokenizer in zip(MODELS, tokenizers, strict=True):
            write_file(folder / name, tokenizer.model)
        for name, table in zip((VOCABULARY, TARGET_VOCABULARY)[: 1 + separate], ids, strict=False):
            write_file(folder / name, json.dumps(table, ensure_ascii=False, indent=2) + "\n")
        source, target = (None if language == "und" else language for language in stored.languages)
        facts = {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": source,
            "target_lang": target,
            "separate_vocabs": separate,
            "model_max_length": POSITIONS,
        }
        write_json(folder / TOKENIZER, facts)

    return FolderLayout(
        rows=Vocabularies(*rows),
        positions=max(POSITIONS, options.max_source_tokens + 1, generation["max_length"]),
        symbols={
            "pad_token_id": padding,
            "decoder_start_token_id": padding,
            "eos_token_id": end,
            "bos_token_id": end,
            "forced_eos_token_id": end,
        },
        generation=generation,
        notes=notes,
        write_tokenizers=write_tokenizers,
    )


def _ids(tokenizer: SentencePieceTokenizer, padding: int) -> dict[str, int]:
    """Return Marian's id of each piece: the end symbol first, as in OPUS-MT, then the unknown symbol."""
    names = [END, UNKNOWN, *tokenizer.vocabulary.pieces]
    return {name: number for number, name in enumerate([*names[:padding], PADDING, *names[padding:]])}


class TransformersModel:
    """Exported folder loaded by transformers, with our ids as its interface."""

    def __init__(self, folder: Path, rows: Vocabularies, suppressed: Sequence[int]) -> None:
        self.model, self.source, self.target = load_transformers(folder)
        self.rows = rows
        self.suppressed = [row for id_ in suppressed if (row := rows.target[id_]) is not None]
        self.ours = [{row: id_ for id_, row in enumerate(side)} for side in rows]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self.ours[0][row] for row in ids] for ids in self.source(list(texts))["input_ids"]]

    def decode(self, ids: Ids) -> str:
        return self.target.decode([self.rows.target[id_] for id_ in ids], skip_special_tokens=True)

    def translate(self, source: Ids, longest: int) -> list[int]:
        with torch.inference_mode():
            (written,) = self.model.generate(
                torch.tensor([[self.rows.source[id_] for id_ in source]]),
                num_beams=1,
                max_length=longest + 1,
                forced_eos_token_id=None,
                bad_words_ids=None,
                no_repeat_ngram_size=None,
                min_new_tokens=None,
                suppress_tokens=self.suppressed,
            ).tolist()
        end = self.model.config.eos_token_id
        return [self.ours[1][row] for row in written[1:] if row != end]

    def score(self, source: Ids, target: Ids) -> list[float]:
        rows = [self.rows.target[id_] for id_ in target]
        targets = torch.tensor([[self.model.config.decoder_start_token_id, *rows]])
        labels = [*rows, self.model.config.eos_token_id]
        with torch.inference_mode():
            sources = torch.tensor([[self.rows.source[id_] for id_ in source]])
            logits = self.model(input_ids=sources, decoder_input_ids=targets).logits[0]
        return logits.double().log_softmax(-1)[range(len(labels)), labels].tolist()


def generation_for(options: SearchOptions, symbols: Symbols) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of transformers that correspond to our search options, and notes on differences."""
    search, notes = _search(options, options.length_extra + 2 if options.length_ratio == 0 else MAX_LENGTH)
    generation: dict[str, Any] = {
        **search,
        "bad_words_ids": [[symbols.padding], *([] if options.allow_unknown else [[symbols.unknown]])],
        "decoder_start_token_id": symbols.padding,
        "pad_token_id": symbols.padding,
        "eos_token_id": symbols.end,
        "forced_eos_token_id": symbols.end,
    }
    return generation, notes


def _search(options: SearchOptions, max_length: int) -> tuple[dict[str, Any], list[str]]:
    """Return the settings that do not depend on a vocabulary, with start and end in `max_length`, and notes."""
    generation: dict[str, Any] = {
        "num_beams": options.beam_size,
        "length_penalty": options.length_penalty,
        "early_stopping": options.beam_size > 1 and (options.early_stopping or "never"),
        "max_length": max_length,
    }
    if options.no_repeat_ngram is not None:
        generation["no_repeat_ngram_size"] = options.no_repeat_ngram
    if options.minimum_length:
        generation["min_new_tokens"] = options.minimum_length
    notes = [*_left_out(options, max_length), *length_penalty_notes(options.beam_size, options.length_penalty)]
    return generation, notes


def _left_out(options: SearchOptions, max_length: int) -> Iterator[str]:
    """Yield a note on each search option that transformers has no setting for."""
    if sampling := [name for name in DRAWS if getattr(options, name) is not None]:
        yield f"decode.{sampling[0]} is not exported: it draws samples here, but transformers will search"
    if options.prefix:
        yield f'decode.prefix = "{options.prefix}" is not exported: transformers translates without a prefix'
    if options.target_language:
        yield f"decode.target_language is not exported: begin each text with >>{options.target_language}<<"
    if options.banned_words:
        yield "decode.banned_words are not exported: transformers bans tokens, not words"
    if options.terms:
        yield "decode.terms are not exported: transformers has no glossaries"
    if options.length_ratio:
        yield (
            f"decode.length_ratio = {options.length_ratio:g} is not exported: every translation has at most "
            f"{max_length - 2} tokens in transformers, however long its source is"
        )
