"""Benchmarks of translation: throughput, latency of single sentences, and memory.

Models are interleaved, round by round, on the same texts, so that a busy machine slows all of them equally. Each figure
is a median with its range. Tokens are those of the translations with their end symbols, without padding or dropped
hypotheses.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from dragoman.brief import brief
from dragoman.config import choose
from dragoman.errors import ConfigError, DataError
from dragoman.evaluating.evaluation import describe
from dragoman.evaluating.references import own_test_pairs
from dragoman.files import check_output
from dragoman.formats.lines import read_lines
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.memory import peak_memory_bytes
from dragoman.progress import Progress, as_progress, silent
from dragoman.serialization import write_json
from dragoman.system import describe as describe_machine
from dragoman.system import gemm_rate, machine, use_threads
from dragoman.text.prepared import evenly_spaced_from_first

ONE, ALL = "one sentence", "full"
"""Names of the two batchings: one call per text, as from a waiting person, or one call for all."""

SEARCHES = (SearchOptions(beam_size=1), SearchOptions(beam_size=4))
ALONE = 100
"""Number of texts translated one by one in each round; three rounds are then enough for a 99th percentile."""
WARM_UP = 8


class TimedTranslator(Protocol):
    """Translator as `measure` uses it."""

    def translate(self, texts: Sequence[str], options: SearchOptions, progress: Progress) -> Sequence[Translation]: ...


class MedianRange(NamedTuple):
    """Median and range of a figure over several rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def from_values(cls, values: Sequence[float]) -> MedianRange:
        return cls(statistics.median(values), min(values), max(values))


class Latency(NamedTuple):
    """Percentiles of the milliseconds that one sentence takes."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def from_seconds(cls, seconds: Sequence[float]) -> Latency:
        """Compute nearest-rank percentiles.

        >>> Latency.from_seconds([0.001 * n for n in range(1, 101)])
        Latency(p50=50.0, p95=95.0, p99=99.0)
        """
        ordered = sorted(seconds)
        return cls(*(round(1000 * ordered[math.ceil(len(ordered) * share / 100) - 1], 6) for share in (50, 95, 99)))


@dataclass(frozen=True)
class Speed:
    """Speed of one model with one search and one batching."""

    model: str
    search: str
    batch: str
    sentences: int
    tokens: int
    """Tokens of the translations in one round."""
    tokens_per_second: MedianRange
    sentences_per_second: MedianRange
    latency_ms: Latency | None
    """None if all sentences are translated in one call."""


@dataclass(frozen=True)
class Ratio:
    """Ratio of a model's sentences per second to those of the first model, within each round."""

    model: str
    against: str
    search: str
    batch: str
    ratio: MedianRange

    def __str__(self) -> str:
        """Describe the ratio in words.

        >>> print(Ratio("new", "old", "greedy", "full", MedianRange(0.5, 0.4, 0.8)))
        new is 2.00 (1.25 to 2.50) times slower than old: greedy, full
        """
        slower, (median, low, high) = self.ratio.median < 1, self.ratio
        if slower:
            median, low, high = 1 / median, 1 / high, 1 / low
        words = "slower than" if slower else "as fast as"
        times = f"{median:.2f} ({low:.2f} to {high:.2f}) times"
        return f"{self.model} is {times} {words} {self.against}: {self.search}, {self.batch}"


@dataclass(frozen=True)
class Benchmark:
    """Speeds, and everything that they depend on."""

    __repr__ = brief

    machine: dict[str, Any]
    """Facts for JSON; `where` is a one-line summary."""
    where: str
    gemm_gflops: float
    """Speed of matrix products in the models' precision; in float32 if that is int8."""
    precision: str
    device: str
    texts: int
    rounds: int
    speeds: tuple[Speed, ...]
    ratios: tuple[Ratio, ...]
    peak_bytes: int | None
    """Peak memory of the process, or of the GPU, with all models loaded; None if the system does not report it."""

    def facts(self) -> dict[str, Any]:
        """Return plain values for JSON; medians and percentiles keep their names."""
        plain = dataclasses.asdict(self)
        for speed in plain["speeds"]:
            for key in ("tokens_per_second", "sentences_per_second", "latency_ms"):
                speed[key] = speed[key] and speed[key]._asdict()
        for ratio in plain["ratios"]:
            ratio["ratio"] = ratio["ratio"]._asdict()
        return plain


def benchmark(
    models: Sequence[Path | str],
    texts: Path | str | Sequence[str] | None = None,
    *,
    sentences: int = 500,
    rounds: int = 3,
    overrides: Sequence[str] = (),
    output: Path | str | None = None,
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    progress: Progress | bool = True,
) -> Benchmark:
    """Measure throughput and latency of each model, greedy and with a beam of 4, and the memory of all models.

    `decode.` settings among `overrides` change the searches. `texts` are sentences, or a file with one per line; by
    default, the test set of the first model's run. The first `sentences` of them are translated, without blank ones.
    All measurements are written to `output` as JSON. `threads` applies to this call only.

    Raises:
        DataError: there is no text, or `output` cannot be written.
        ConfigError: there is less than one round, a model is named twice, or a setting is unknown.
        CheckpointError: a folder has no model that can be loaded.
    """
    if output is not None:
        check_output(output, texts if isinstance(texts, str | Path) else None)
    searches = list(dict.fromkeys(choose(SearchOptions, "decode", overrides, search) for search in SEARCHES))
    if texts is None and models:
        texts = [source for source, _ in own_test_pairs(models[0], searches[0])]
    lines = read_lines(Path(texts)) if isinstance(texts, Path | str) else texts or ()
    chosen = [text for text in islice(lines, sentences) if text.strip()]
    names = [str(model) for model in models]
    if len(set(names)) != len(names) or not names:
        raise ConfigError(
            f"benchmark takes one model or several different ones, but was given {', '.join(names) or 'none'}"
        )
    if rounds < 1:
        raise ConfigError(f"rounds must be at least 1, but is {rounds}")
    if not chosen:
        raise DataError("there is nothing to translate: the texts are empty")
    with use_threads(threads):
        translators = {name: Translator.load(name, device, precision, progress, threads=threads) for name in names}
        first = translators[names[0]]
        gemm = gemm_rate("float32" if first.precision == "int8" else first.precision, device=first.device)
        speeds, ratios = measure(translators, chosen, searches=searches, rounds=rounds, progress=progress)
        measured = Benchmark(
            machine=machine(),
            where=describe_machine(),
            gemm_gflops=gemm,
            precision=first.precision,
            device=first.device,
            texts=len(chosen),
            rounds=rounds,
            speeds=tuple(speeds),
            ratios=tuple(ratios),
            peak_bytes=peak_memory_bytes(first.device),
        )
    if output is not None:
        write_json(output, measured.facts())
    return measured


def measure(
    translators: Mapping[str, TimedTranslator],
    texts: Sequence[str],
    *,
    searches: Sequence[SearchOptions] = SEARCHES,
    rounds: int = 3,
    progress: Progress | bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[list[Speed], list[Ratio]]:
    """Time loaded translators, interleaved; every second round has the reverse order."""
    alone = evenly_spaced_from_first(texts, ALONE)
    speeds, ratios = [], []
    names = list(translators)
    with as_progress(progress).track(
        "benchmark", total=2 * rounds * len(searches) * len(names), unit="measurements"
    ) as advance:
        for options in searches:
            for translator in translators.values():
                translator.translate(texts[:WARM_UP], options, silent)
            for batch, calls in ((ONE, [[text] for text in alone]), (ALL, [texts])):
                timings: dict[str, list[_Timing]] = {name: [] for name in names}
                for number in range(rounds):
                    for name in names if number % 2 == 0 else reversed(names):
                        timings[name].append(_time(translators[name], calls, options, clock))
                        advance()
                speeds += [_speed(name, options, batch, timings[name]) for name in names]
                for name in names[1:]:
                    both = zip(timings[names[0]], timings[name], strict=True)
                    ratio = MedianRange.from_values([sum(base.seconds) / sum(own.seconds) for base, own in both])
                    ratios.append(Ratio(name, names[0], describe(options), batch, ratio))
    return speeds, ratios


class _Timing(NamedTuple):
    """Seconds of every call in one round of one model."""

    seconds: list[float]
    sentences: int
    tokens: int


def _time(
    translator: TimedTranslator, calls: Sequence[Sequence[str]], options: SearchOptions, clock: Callable[[], float]
) -> _Timing:
    seconds, tokens = [], 0
    for texts in calls:
        start = clock()
        translations = translator.translate(texts, options, silent)
        seconds.append(clock() - start)
        tokens += sum(len(translation.tokens) for translation in translations)
    return _Timing(seconds, sum(map(len, calls)), tokens)


def _speed(name: str, options: SearchOptions, batch: str, rounds: Sequence[_Timing]) -> Speed:
    return Speed(
        model=name,
        search=describe(options),
        batch=batch,
        sentences=rounds[0].sentences,
        tokens=rounds[0].tokens,
        tokens_per_second=MedianRange.from_values([timing.tokens / sum(timing.seconds) for timing in rounds]),
        sentences_per_second=MedianRange.from_values([timing.sentences / sum(timing.seconds) for timing in rounds]),
        latency_ms=Latency.from_seconds([s for timing in rounds for s in timing.seconds]) if batch == ONE else None,
    )
