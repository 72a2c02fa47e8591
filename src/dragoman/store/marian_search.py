"""The generation settings of transformers (`generation_config.json`) as our search options."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import pydantic

from dragoman.config import Settings, check
from dragoman.errors import CheckpointError

MAX_LENGTH = 512
"""`max_length` of the models of OPUS-MT."""


class GenerationSettings(Settings, extra="ignore"):
    """Settings by which transformers translates. Those with a single allowed value ask for what our search does not do.
    Keys that are not listed here only matter to sampling, which is refused, or do not change a translation.
    """

    num_beams: int = pydantic.Field(default=1, ge=1, le=256)
    length_penalty: float = pydantic.Field(default=1.0, ge=0, le=5)
    early_stopping: bool | Literal["never"] = False
    max_length: int = pydantic.Field(default=MAX_LENGTH, ge=3, le=1_000_000)
    max_new_tokens: int | None = pydantic.Field(default=None, ge=2, le=1_000_000)
    """If given, `max_length` is ignored. Unlike `max_length`, it does not count the start symbol."""
    min_new_tokens: int = pydantic.Field(default=0, ge=0, le=1_000)
    no_repeat_ngram_size: int = pydantic.Field(default=0, ge=0, le=1_000_000)
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    forced_eos_token_id: int | None = None
    eos_token_id: int | None = None
    decoder_start_token_id: int | None = None
    forced_bos_token_id: int | None = None
    """Symbol of a language with which every translation begins."""
    renormalize_logits: bool = False

    do_sample: Literal[False] = False
    num_beam_groups: Literal[1] = 1
    min_length: Literal[0] = 0
    repetition_penalty: float = pydantic.Field(default=1.0, ge=1, le=1)
    encoder_repetition_penalty: float = pydantic.Field(default=1.0, ge=1, le=1)
    guidance_scale: float = pydantic.Field(default=1.0, ge=1, le=1)
    penalty_alpha: float = pydantic.Field(default=0.0, ge=0, le=0)
    encoder_no_repeat_ngram_size: Literal[0] = 0
    forced_decoder_ids: None = None
    suppress_tokens: tuple[()] = ()
    begin_suppress_tokens: tuple[()] = ()
    sequence_bias: None = None
    exponential_decay_length_penalty: None = None
    constraints: None = None
    force_words_ids: None = None
    dola_layers: None = None
    watermarking_config: None = None
    stop_strings: None = None
    max_time: None = None

    @property
    def longest(self) -> int:
        """Most tokens of a translation, not counting a forced end symbol, which takes the last place."""
        tokens = self.max_length - 1 if self.max_new_tokens is None else self.max_new_tokens
        return tokens - (self.forced_eos_token_id is not None)


class Symbols(NamedTuple):
    """Ids of special symbols in the folder for transformers."""

    unknown: int
    padding: int
    end: int
    start: int
    """Symbol from which the decoder starts."""
    languages: Mapping[str, int] = {}
    """Symbols of languages, with which translations begin."""


def options_from(
    content: Mapping[str, Any], positions: int, symbols: Symbols, name: str
) -> tuple[dict[str, Any], list[str]]:
    """Return search options that translate as these generation settings do, and notes on the differences.

    `positions` is the longest source. A setting that our search lacks is a `CheckpointError` of the file `name`.
    """
    present = {key: value for key, value in content.items() if value is not None}
    theirs = check(present, name, GenerationSettings, CheckpointError)
    if others := set(theirs.bad_words_ids) - {(symbols.padding,), (symbols.unknown,)}:
        raise CheckpointError(f"{name}: bad_words_ids may hold padding and the unknown symbol, but holds {min(others)}")
    one_id = {
        "eos_token_id": symbols.end,
        "forced_eos_token_id": symbols.end,
        "decoder_start_token_id": symbols.start,
    }
    for key, wanted in one_id.items():
        if (value := getattr(theirs, key)) not in (None, wanted):
            raise CheckpointError(f"{name}: {key} must be {wanted}, as in config.json, but is {value}")
    forced = theirs.forced_bos_token_id
    language = next((tag for tag, symbol in symbols.languages.items() if symbol == forced), None)
    if forced is not None and language is None:
        raise CheckpointError(f"{name}: forced_bos_token_id must be the symbol of a language, but is {forced}")
    options: dict[str, Any] = {
        "beam_size": theirs.num_beams,
        "length_penalty": theirs.length_penalty,
        "length_ratio": 0.0,
        "length_extra": theirs.longest,
        "allow_unknown": (symbols.unknown,) not in theirs.bad_words_ids,
        "split": "long",
        "max_source_tokens": positions - 1,
    }
    if theirs.early_stopping == "never":
        options["early_stopping"] = False
    if theirs.no_repeat_ngram_size:
        options["no_repeat_ngram"] = theirs.no_repeat_ngram_size
    if theirs.min_new_tokens:
        options["minimum_length"] = theirs.min_new_tokens
    if language is not None:
        options["target_language"] = language
    return options, _differences(theirs)


def _differences(theirs: GenerationSettings) -> list[str]:
    notes = length_penalty_notes(theirs.num_beams, theirs.length_penalty)
    if theirs.num_beams > 1 and theirs.early_stopping is False:
        notes.append(
            "the search here ends as with early_stopping = true: when the number of finished hypotheses is the beam "
            "width"
        )
    if theirs.num_beams > 1 and theirs.renormalize_logits:
        notes.append(
            "renormalize_logits = true gives the probability of forbidden tokens to the others in transformers, "
            "not here: beams may end differently"
        )
    return notes


def length_penalty_notes(beam_size: int, exponent: float) -> list[str]:
    """Return a note that the length penalty of transformers is a different formula. With exponent 0, both are 1."""
    if beam_size == 1 or exponent == 0:
        return []
    return [
        f"length_penalty = {exponent:g} divides by ((5 + length) / 6)^{exponent:g} here and by length^{exponent:g} in "
        "transformers: beams may end differently; 0 is the same in both"
    ]
