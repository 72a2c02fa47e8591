"""Our search options as the generation settings of transformers (`generation_config.json`)."""

from collections.abc import Iterator
from typing import Any

from dragoman.inference.options import DRAWS, SearchOptions
from dragoman.store.marian_search import MAX_LENGTH, Symbols, length_penalty_notes


def generation_for(options: SearchOptions, symbols: Symbols) -> tuple[dict[str, Any], list[str]]:
    """Generation settings that translate as our search options do, and notes on where they can't quite."""
    generation: dict[str, Any] = {
        "num_beams": options.beam_size,
        "length_penalty": options.length_penalty,
        "early_stopping": options.beam_size > 1 and (options.early_stopping or "never"),
        "max_length": options.length_extra + 2 if options.length_ratio == 0 else MAX_LENGTH,  # start and end symbols
        "bad_words_ids": [[symbols.padding], *([] if options.allow_unknown else [[symbols.unknown]])],
        "decoder_start_token_id": symbols.padding,
        "pad_token_id": symbols.padding,
        "eos_token_id": symbols.end,
        "forced_eos_token_id": symbols.end,
    }
    if options.no_repeat_ngram is not None:
        generation["no_repeat_ngram_size"] = options.no_repeat_ngram
    if options.minimum_length:
        generation["min_new_tokens"] = options.minimum_length
    return generation, [*_left_out(options), *length_penalty_notes(options.beam_size, options.length_penalty)]


def _left_out(options: SearchOptions) -> Iterator[str]:
    """A note on each search option that transformers has no setting for."""
    if drawn := [name for name in DRAWS if getattr(options, name) is not None]:
        yield f"decode.{drawn[0]} draws samples here, but transformers will search; samples are left out"
    if options.prefix:
        yield f'decode.prefix = "{options.prefix}" is left out: translations there begin as the model likes'
    if options.target_language:
        yield f"decode.target_language is left out: begin each text there with >>{options.target_language}<<"
    if options.banned_words:
        yield "decode.banned_words are left out: transformers bans tokens, not words"
    if options.terms:
        yield "decode.terms are left out: transformers finds no terms in a text"
    if options.length_ratio:
        yield (
            f"decode.length_ratio = {options.length_ratio:g} is left out: every translation there has at most "
            f"{MAX_LENGTH - 2} tokens, however long its source is"
        )
