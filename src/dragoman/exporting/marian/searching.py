"""Search options, as transformers' generation settings and back."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import pydantic

from dragoman.config import Settings, check
from dragoman.errors import CheckpointError, ConfigError
from dragoman.translating import SearchOptions


class Generation(Settings):
    """What decides a translation there. Keys that are not listed here change none."""

    num_beams: int = pydantic.Field(default=1, ge=1, le=256)
    length_penalty: float = pydantic.Field(default=1.0, ge=0, le=5)
    early_stopping: bool | Literal["never"] = False
    max_length: int = pydantic.Field(default=512, ge=2, le=1_000_000)
    no_repeat_ngram_size: int = pydantic.Field(default=0, ge=0, le=1_000_000)
    do_sample: Literal[False] = False
    num_beam_groups: Literal[1] = 1
    repetition_penalty: float = pydantic.Field(default=1.0, ge=1, le=1)
    min_length: Literal[0] = 0
    forced_bos_token_id: None = None
    bad_words_ids: tuple[tuple[int, ...], ...] = ()


class Symbols(NamedTuple):
    """Ids there."""

    unknown: int
    padding: int
    end: int


def options_from(
    content: Mapping[str, Any], positions: int, symbols: Symbols, name: str
) -> tuple[dict[str, Any], list[str]]:
    """Our search options, and what a person should know of them. `name` is that of the file, for errors.

    Raises:
        CheckpointError: our search has no such setting; it is named.
    """
    known = {key: value for key, value in content.items() if key in Generation.model_fields and value is not None}
    try:
        found = check(known, name, Generation)
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    if others := set(found.bad_words_ids) - {(symbols.padding,), (symbols.unknown,)}:
        raise CheckpointError(f"{name}: bad_words_ids may hold padding and the unknown symbol, but holds {min(others)}")
    options: dict[str, Any] = {
        "beam_size": found.num_beams,
        "length_penalty": found.length_penalty,
        "length_ratio": 0.0,
        "length_extra": found.max_length - 1,
        "allow_unknown": (symbols.unknown,) not in found.bad_words_ids,
        "split": "long",
        "max_source_tokens": positions - 1,
    }
    if found.no_repeat_ngram_size:
        options["no_repeat_ngram"] = found.no_repeat_ngram_size
    return options, _differences(found)


def generation_for(options: SearchOptions, symbols: Symbols) -> tuple[dict[str, Any], list[str]]:
    """Their generation settings, and what a person should know of them."""
    generation: dict[str, Any] = {
        "num_beams": options.beam_size,
        "length_penalty": options.length_penalty,
        "early_stopping": options.beam_size > 1,
        "max_length": options.length_extra + 1 if options.length_ratio == 0 else 512,
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
    return generation, _penalties(options.beam_size, options.length_penalty)


def _differences(found: Generation) -> list[str]:
    notes = _penalties(found.num_beams, found.length_penalty)
    if found.num_beams > 1 and found.early_stopping is not True:
        notes.append(
            "the search here ends as with early_stopping = true: when as many hypotheses have ended as the beam is wide"
        )
    return notes


def _penalties(beam_size: int, exponent: float) -> list[str]:
    """Both penalties are 1 where the exponent is 0. Elsewhere they rank hypotheses of different lengths in different
    ways, so the exponent is kept, and its effect is only similar.
    """
    if beam_size == 1 or exponent == 0:
        return []
    return [
        f"length_penalty = {exponent:g} divides by ((5 + length) / 6)^{exponent:g} here and by length^{exponent:g} in "
        "transformers: beams may end differently; 0 is the same in both"
    ]
