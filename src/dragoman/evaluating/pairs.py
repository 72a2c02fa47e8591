"""Scoring of given translations: their log-probabilities under a model, pair by pair, in constant memory.

A common filter of noisy text keeps pairs with a high mean log-probability per token.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.brief import brief
from dragoman.config import choose
from dragoman.errors import TokenizerError
from dragoman.evaluating.direction import naming_for
from dragoman.formats.addresses import Address
from dragoman.inference.documents import chunks
from dragoman.inference.options import SearchOptions
from dragoman.inference.translator import Translator
from dragoman.progress import Progress, as_progress
from dragoman.surface.pipeline import giant
from dragoman.text.readers import Pair, Reading, open_pairs
from dragoman.text.settings import ReadingSettings, reading_overrides
from dragoman.tokenizing.tokenizer import Tokenizer


@dataclass(frozen=True)
class ScoredPair:
    """Pair with the log-probability of its target.

    Attributes:
        origin: place of the pair, such as `pairs.tsv:17`.
        score: `log_prob` divided by the length penalty, as `translate` would report it.
        log_prob: natural logarithm of the target's probability; the sum of `token_log_probs`.
        tokens: readable tokens of the target, its end symbol included.
        problem: reason why the pair cannot be scored; all figures are then empty.
    """

    __repr__ = brief

    source: str
    target: str
    origin: str
    score: float | None = None
    log_prob: float | None = None
    tokens: tuple[str, ...] = ()
    token_log_probs: tuple[float, ...] = ()
    problem: str = ""

    @property
    def mean_log_prob(self) -> float | None:
        """The mean log-probability per token, in nats; comparable between pairs of any length."""
        return None if self.log_prob is None else self.log_prob / len(self.tokens)


def score(
    model: Path | str,
    data: Address | Reading | list[Pair] | Iterator[Pair],
    overrides: Sequence[str] = (),
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    progress: Progress | bool = True,
    adapter: Path | str | None = None,
    **settings: Any,
) -> Iterator[ScoredPair]:
    """Score each pair of `data`, in order: text in any format that training reads, or pairs.

    A pair is scored as a whole, not sentence by sentence. A pair with a side that is blank, or longer than
    decode.max_source_tokens or the model's positions, has a `problem` instead of figures. `overrides` are
    `data.key=value` and `decode.key=value`; `settings` are those of `SearchOptions`, as in `length_penalty=1.0`.

    Raises:
        CheckpointError: the model is missing, damaged or newer.
        ConfigError: a device, precision, setting or number of threads is not available.
        DataError: the text cannot be read. A file is read once to its end before the first pair is scored.
        OutOfMemory: the device is full.
    """
    data_overrides, decode_overrides = reading_overrides(overrides)
    reading = choose(ReadingSettings, "data", data_overrides)
    pairs = open_scored(model, data, reading) if isinstance(data, str | tuple) else data
    total = sum(1 for _ in pairs) if isinstance(pairs, Reading) and pairs.files else None
    translator = Translator.load(model, device, precision, progress, adapter, threads=threads)
    options = choose(SearchOptions, "decode", decode_overrides, translator.options.but(**settings))
    translator = translator.bound(options, *([pairs.languages] if isinstance(pairs, Reading) else []))
    return _scored(translator, pairs, options, total, as_progress(progress))


def open_scored(model: Path | str, data: Address, settings: ReadingSettings) -> Reading:
    """Open pairs to be scored; the model's training text helps to find their columns."""
    return open_pairs(data, naming_for(model, settings.naming), settings.format, settings.encoding_errors)


def _scored(
    translator: Translator,
    pairs: Iterable[Pair],
    options: SearchOptions,
    total: int | None,
    progress: Progress,
) -> Iterator[ScoredPair]:
    with progress.track("score", total, "pairs") as advance:
        for chunk in chunks(pairs, lambda pair: len(pair.source) + len(pair.target)):
            scored = score_pairs(translator, chunk, options)
            advance(len(chunk))
            yield from scored


def score_pairs(translator: Translator, chunk: Sequence[Pair], options: SearchOptions) -> list[ScoredPair]:
    """Score a chunk of pairs as one batch."""
    languages = translator.tags
    languages.warn_of_missing_tags([pair.source for pair in chunk], options.target_language)
    problems = [_problem(translator, pair, options) for pair in chunk]
    whole = [pair for pair, problem in zip(chunk, problems, strict=True) if not problem]
    scores = iter(translator.score([pair.source for pair in whole], [pair.target for pair in whole], options))
    scored: list[ScoredPair] = []
    for pair, problem in zip(chunk, problems, strict=True):
        if problem:
            scored.append(ScoredPair(*pair[:3], problem=problem))
        else:
            score = next(scores)
            scored.append(ScoredPair(*pair[:3], score.score, score.log_prob, score.tokens, score.token_log_probs))
    return scored


def _problem(translator: Translator, pair: Pair, options: SearchOptions) -> str:
    """Return the reason why a pair cannot be scored; empty if it can."""
    if pair.fault:
        return pair.fault
    tokenizers, symbols = translator.tokenizers, translator.framing
    (source,) = translator.tags.tagged([pair.source], options.target_language)
    sides = (
        ("source", source, tokenizers.source, symbols.source_symbols),
        ("target", pair.target, tokenizers.target, symbols.target_symbols + symbols.target_prefix),
    )
    for side, text, tokenizer, around in sides:
        positions = translator.requests.positions
        longest = min(options.max_source_tokens, positions - around if positions else options.max_source_tokens)
        if problem := _text_problem(text, tokenizer, longest):
            return f"the {side} {problem}"
    return ""


def _text_problem(text: str, tokenizer: Tokenizer, longest: int) -> str:
    if not text.strip():
        return "is blank"
    if giant(text, longest):
        return f"has {len(text):,} characters, too many for {longest:,} tokens"
    try:
        count = len(tokenizer.encode(text))
    except TokenizerError:
        return "is not valid Unicode"
    if not count:
        return "has no known token"
    return f"has {count:,} tokens, more than {longest:,}" if count > longest else ""
