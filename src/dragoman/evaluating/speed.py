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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from dragoman.brief import brief
from dragoman.config import choose
from dragoman.errors import ConfigError, DataError
from dragoman.evaluating.evaluation import describe
from dragoman.evaluating.references import evenly_spread, own_test_pairs
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

ONE, ALL = "one sentence", "full"
"""The two ways to hand texts over: each in a call of its own, as a waiting person would, or all in one."""

SEARCHES = (SearchOptions(beam_size=1), SearchOptions(beam_size=4))
ALONE = 100
"""Texts translated alone in each round; three rounds are then enough for a 99th percentile."""
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

    __repr__ = brief

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
    """Measures tokens a second and latency of each model, greedy and with a beam of 4, or as the `decode.` settings
    among `overrides` say; and the memory of all.

    `texts` are sentences, or a file with one on each line; by default, the test set of the first model's run. The first
    `sentences` of them are translated, blank ones left out. All measurements are written to `output` as JSON. `threads`
    counts for this call alone.

    Raises:
        DataError: there is no text, or `output` cannot be written.
        ConfigError: there is less than one round, a model is named twice, or a setting is unknown.
        CheckpointError: a folder has no model that can be loaded.
    """
    if output is not None:
        check_output(output, texts if isinstance(texts, str | Path) else None)
    searches = list(dict.fromkeys(choose(SearchOptions, "decode", overrides, each) for each in SEARCHES))
    chosen = [text for text in islice(_lines(models, texts), sentences) if text.strip()]
    names = _check(models, chosen, rounds)
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
            peak_bytes=peak_memory_bytes(),
        )
    if output is not None:
        write_json(output, measured.facts())
    return measured


def _lines(models: Sequence[Path | str], texts: Path | str | Sequence[str] | None) -> Iterator[str]:
    if texts is None and models:
        return (source for source, _ in own_test_pairs(models[0]))
    return read_lines(Path(texts)) if isinstance(texts, Path | str) else iter(texts or ())


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


def measure(
    translators: Mapping[str, Translates],
    texts: Sequence[str],
    *,
    searches: Sequence[SearchOptions] = SEARCHES,
    rounds: int = 3,
    progress: Progress | bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[list[Speed], list[Ratio]]:
    """Times translators that are already loaded. They take turns; in every second round the last goes first."""
    alone = evenly_spread(texts, ALONE)
    speeds, ratios = [], []
    names = list(translators)
    with as_progress(progress).track(
        "benchmark", total=2 * rounds * len(searches) * len(names), unit="measurements"
    ) as advance:
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
