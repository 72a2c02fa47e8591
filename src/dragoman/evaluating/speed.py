"""How fast models translate, how long one sentence waits, how much memory it takes.

Models take turns, round by round, on the same texts, so that a busy machine slows all of them alike. Each figure is a
median with its spread. Tokens are those of the translations with their end symbols, never padding or what a beam
dropped.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from dragoman.errors import ConfigError, DataError
from dragoman.evaluating.evaluation import describe
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.machine import describe as describe_machine
from dragoman.machine import gemm_rate, machine, use_threads
from dragoman.memory import peak_memory_bytes
from dragoman.progress import Progress, silent

ONE, ALL = "one sentence", "full"
"""The two ways to hand texts over: each in a call of its own, as a waiting person would, or all in one."""

SEARCHES = (SearchOptions(beam_size=1), SearchOptions(beam_size=4))
ALONE = 100
"""Texts translated alone in each round; three rounds are then enough for a 99th percentile."""
LIMIT = 500
WARM_UP = 8


class Translates(Protocol):
    """What `measure` needs of a translator."""

    def translate(self, texts: Sequence[str], options: SearchOptions, progress: Progress) -> Sequence[Translation]: ...


class Spread(NamedTuple):
    """A figure over several rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


class Latency(NamedTuple):
    """Milliseconds that one sentence waits: half of them at most p50, 99 of 100 at most p99."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        """Nearest-rank percentiles.

        >>> Latency.of([0.001 * n for n in range(1, 101)])
        Latency(p50=50.0, p95=95.0, p99=99.0)
        """
        ordered = sorted(seconds)
        return cls(*(round(1000 * ordered[math.ceil(len(ordered) * share / 100) - 1], 6) for share in (50, 95, 99)))


@dataclass(frozen=True)
class Speed:
    """The speed of one model under one search, with its texts handed over in one way."""

    model: str
    search: str
    batch: str
    sentences: int
    tokens: int
    """Of the translations, in one round."""
    tokens_per_second: Spread
    sentences_per_second: Spread
    latency_ms: Latency | None
    """None where all sentences are translated together."""


@dataclass(frozen=True)
class Ratio:
    """Sentences a second of a model over those of the first model, within each round."""

    model: str
    against: str
    search: str
    batch: str
    ratio: Spread

    def __str__(self) -> str:
        """How many times as fast it is, or how many times slower.

        >>> print(Ratio("new", "old", "greedy", "full", Spread(0.5, 0.4, 0.8)))
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

    machine: dict[str, Any]
    """Facts for JSON; `where` gives them in one line."""
    where: str
    gemm_gflops: float
    """Of matrix products in the models' precision; in float32 where that is int8."""
    precision: str
    device: str
    texts: int
    rounds: int
    speeds: tuple[Speed, ...]
    ratios: tuple[Ratio, ...]
    peak_bytes: int | None
    """The most memory that the process held, with all models loaded; None where the system does not say."""

    def facts(self) -> dict[str, Any]:
        """Plain values for JSON; medians and percentiles keep their names."""
        plain = dataclasses.asdict(self)
        for speed in plain["speeds"]:
            for key in ("tokens_per_second", "sentences_per_second", "latency_ms"):
                speed[key] = speed[key] and speed[key]._asdict()
        for ratio in plain["ratios"]:
            ratio["ratio"] = ratio["ratio"]._asdict()
        return plain


def benchmark_models(
    models: Sequence[Path | str],
    texts: Sequence[str],
    *,
    searches: Sequence[SearchOptions] = SEARCHES,
    rounds: int = 3,
    limit: int = LIMIT,
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    progress: Progress = silent,
) -> Benchmark:
    """Measures models side by side on the same texts: greedy and beam, one sentence at a time and all together.

    Blank texts are left out. Of more than `limit` texts it takes that many, evenly spread. `threads` counts for this
    call alone.

    Raises:
        DataError: there is no text.
        ConfigError: fewer than one round, or a model named twice.
        CheckpointError: a folder holds no model that can be loaded.
    """
    texts = _spread([text for text in texts if text.strip()], limit)
    names = _check(models, texts, rounds)
    with use_threads(threads):
        return _benchmark(names, texts, searches, rounds, device, precision, threads, progress)


def _benchmark(
    names: Sequence[str],
    texts: Sequence[str],
    searches: Sequence[SearchOptions],
    rounds: int,
    device: str,
    precision: str,
    threads: int | None,
    progress: Progress,
) -> Benchmark:
    translators = {name: Translator.load(name, device, precision, threads=threads) for name in names}
    device, precision = translators[names[0]].device, translators[names[0]].precision
    gemm = gemm_rate("float32" if precision == "int8" else precision, device=device)
    speeds, ratios = measure(translators, texts, searches=searches, rounds=rounds, progress=progress)
    return Benchmark(
        machine=machine(),
        where=describe_machine(),
        gemm_gflops=gemm,
        precision=precision,
        device=device,
        texts=len(texts),
        rounds=rounds,
        speeds=tuple(speeds),
        ratios=tuple(ratios),
        peak_bytes=peak_memory_bytes(),
    )


def measure(
    translators: Mapping[str, Translates],
    texts: Sequence[str],
    *,
    searches: Sequence[SearchOptions] = SEARCHES,
    rounds: int = 3,
    progress: Progress = silent,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[list[Speed], list[Ratio]]:
    """Times translators that are already loaded. They take turns; in every second round the last goes first."""
    alone = _spread(texts, ALONE)
    speeds, ratios = [], []
    names = list(translators)
    with progress.track("benchmark", total=2 * rounds * len(searches) * len(names), unit="measurements") as advance:
        for options in searches:
            for translator in translators.values():
                translator.translate(texts[:WARM_UP], options, silent)
            for batch, calls in ((ONE, [[text] for text in alone]), (ALL, [texts])):
                taken: dict[str, list[_Timing]] = {name: [] for name in names}
                for turn in range(rounds):
                    for name in names if turn % 2 == 0 else reversed(names):
                        taken[name].append(_time(translators[name], calls, options, clock))
                        advance()
                speeds += [_speed(name, options, batch, taken[name]) for name in names]
                ratios += [_ratio(name, names[0], options, batch, taken) for name in names[1:]]
    return speeds, ratios


def _spread(texts: Sequence[str], most: int) -> list[str]:
    """At most this many of the texts, evenly spread over all of them."""
    count = min(most, len(texts))
    return [texts[number * len(texts) // count] for number in range(count)]


class _Timing(NamedTuple):
    """One round of one model: the seconds of every call."""

    seconds: list[float]
    sentences: int
    tokens: int


def _time(
    translator: Translates, calls: Sequence[Sequence[str]], options: SearchOptions, clock: Callable[[], float]
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
        tokens_per_second=Spread.of([timing.tokens / sum(timing.seconds) for timing in rounds]),
        sentences_per_second=Spread.of([timing.sentences / sum(timing.seconds) for timing in rounds]),
        latency_ms=Latency.of([each for timing in rounds for each in timing.seconds]) if batch == ONE else None,
    )


def _ratio(name: str, first: str, options: SearchOptions, batch: str, taken: Mapping[str, list[_Timing]]) -> Ratio:
    rounds = zip(taken[first], taken[name], strict=True)
    ratio = Spread.of([sum(base.seconds) / sum(timing.seconds) for base, timing in rounds])
    return Ratio(name, first, describe(options), batch, ratio)


def _check(models: Sequence[Path | str], texts: Sequence[str], rounds: int) -> list[str]:
    names = [str(model) for model in models]
    if len(set(names)) != len(names) or not names:
        raise ConfigError(
            f"benchmark takes one model or several different ones, but was given {', '.join(names) or 'none'}"
        )
    if rounds < 1:
        raise ConfigError(f"rounds must be at least 1, but is {rounds}")
    if not texts:
        raise DataError("there is nothing to translate: the texts are empty")
    return names
