"""The benchmark's arithmetic, on translators whose speed is known."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError, DataError
from dragoman.evaluating.speed import (
    ALL,
    ALONE,
    ONE,
    Benchmark,
    Latency,
    MedianRange,
    benchmark,
    measure,
)
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import build_model
from dragoman.progress import Progress
from dragoman.store.description import Languages, ModelFiles
from dragoman.store.saving import save_model
from dragoman.text.prepared import evenly_spaced_from_first
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

GREEDY, BEAM = SearchOptions(beam_size=1), SearchOptions(beam_size=4)


class Clock:
    """Time that passes only while a `Metronome` translates."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Metronome:
    """A translator that takes a fixed time for each word, and repeats the words."""

    def __init__(self, clock: Clock, seconds: float, calls: list[tuple["Metronome", int]] | None = None) -> None:
        self.clock, self.seconds, self.calls = clock, seconds, [] if calls is None else calls

    def translate(self, texts: Sequence[str], options: SearchOptions, progress: Progress) -> list[Translation]:
        self.calls.append((self, len(texts)))
        self.clock.now += self.seconds * options.beam_size * sum(len(text.split()) for text in texts)
        return [Translation(text, text, tokens=tuple(text.split())) for text in texts]


TEXTS = ["one", "two words", "and three words", "then four more words"]


def test_tokens_and_sentences_a_second_are_those_of_the_translations():
    clock = Clock()
    speeds, _ = measure({"a": Metronome(clock, 0.01)}, TEXTS, searches=[GREEDY, BEAM], clock=clock)
    assert [(speed.search, speed.batch) for speed in speeds] == [
        ("greedy", ONE),
        ("greedy", ALL),
        ("beam 4, length penalty 0.6", ONE),
        ("beam 4, length penalty 0.6", ALL),
    ]
    for speed, rate in zip(speeds, (100, 100, 25, 25), strict=True):
        assert (speed.sentences, speed.tokens) == (4, 10)
        assert speed.tokens_per_second == pytest.approx((rate, rate, rate))
        assert speed.sentences_per_second.median == pytest.approx(rate * 4 / 10)


def test_latency_is_measured_where_sentences_come_one_at_a_time():
    clock = Clock()
    alone, together = measure({"a": Metronome(clock, 0.01)}, TEXTS, searches=[GREEDY], clock=clock)[0]
    assert alone.latency_ms == pytest.approx((20, 40, 40))
    assert together.latency_ms is None


def test_two_models_take_turns_and_are_compared_round_by_round():
    clock, calls = Clock(), []
    slow, fast = Metronome(clock, 0.02, calls), Metronome(clock, 0.005, calls)
    _, ratios = measure({"slow": slow, "fast": fast}, TEXTS, searches=[GREEDY], rounds=3, clock=clock)
    assert [(ratio.model, ratio.against, ratio.batch) for ratio in ratios] == [
        ("fast", "slow", ONE),
        ("fast", "slow", ALL),
    ]
    for ratio in ratios:
        assert ratio.ratio == pytest.approx((4, 4, 4))
    whole = [who for who, count in calls[2:] if count > 1]
    assert whole == [slow, fast, fast, slow, slow, fast]
    assert [who for who, _ in itertools.groupby(who for who, count in calls if count == 1)] == [slow, fast, slow, fast]


def test_the_first_translation_warms_up_and_is_not_timed():
    clock, calls = Clock(), []
    speeds, _ = measure({"a": Metronome(clock, 0.01, calls)}, TEXTS, searches=[GREEDY], rounds=1, clock=clock)
    assert len(calls) == 1 + len(TEXTS) + 1
    assert clock.now == pytest.approx(0.3)
    assert speeds[1].tokens_per_second.median == pytest.approx(100)


def test_at_most_a_hundred_texts_spread_over_all_are_translated_alone():
    clock, calls = Clock(), []
    alone, together = measure({"a": Metronome(clock, 1, calls)}, ["x"] * 350, searches=[GREEDY], rounds=1, clock=clock)[
        0
    ]
    assert (alone.sentences, together.sentences) == (ALONE, 350)


def test_some_of_many_texts_are_spread_over_all_of_them():
    assert evenly_spaced_from_first("abcdefghij", 4) == ["a", "c", "f", "h"]
    assert evenly_spaced_from_first("ab", 4) == ["a", "b"]
    assert evenly_spaced_from_first("", 4) == []


@given(st.lists(st.floats(1e-6, 100), min_size=1, max_size=300))
def test_percentiles_are_measured_values_in_order(seconds):
    p50, p95, p99 = found = Latency.from_seconds(seconds)
    assert p50 <= p95 <= p99 <= 1000 * max(seconds) + 1e-6
    assert all(any(abs(value - 1000 * second) < 1e-6 for second in seconds) for value in found)


def test_a_benchmark_is_plain_json():
    clock = Clock()
    models = {"a": Metronome(clock, 0.01), "b": Metronome(clock, 0.02)}
    speeds, ratios = measure(models, TEXTS, searches=[GREEDY], clock=clock)
    whole = Benchmark({}, "here", 100.0, "float32", "cpu", 5, 3, tuple(speeds), tuple(ratios), 20)
    facts = json.loads(json.dumps(whole.facts()))
    assert set(facts["speeds"][0]["latency_ms"]) == {"p50", "p95", "p99"}
    assert set(facts["ratios"][0]["ratio"]) == set(MedianRange._fields)
    assert facts["peak_bytes"] == 20


def test_benchmarks_of_nothing_are_refused():
    with pytest.raises(DataError, match="nothing to translate"):
        benchmark(["model"], ["", " "])
    with pytest.raises(ConfigError, match="given none"):
        benchmark([], ["text"])
    with pytest.raises(ConfigError, match="several different ones, but was given a, a"):
        benchmark(["a", "a"], ["text"])
    with pytest.raises(ConfigError, match="rounds must be at least 1, but is 0"):
        benchmark(["a"], ["text"], rounds=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model of two languages, on disk."""
    tokenizer = learn_tokenizer(TEXTS * 3, TokenizerSettings.model_validate({"kind": "word"}))
    config = ModelConfig.model_validate(
        {"size": "tiny", "source_vocabulary": tokenizer.size, "target_vocabulary": tokenizer.size}
    )
    folder = tmp_path_factory.mktemp("models") / "model"
    save_model(folder, build_model(config), ModelFiles(Tokenizers(tokenizer, tokenizer), Languages("en", "it")))
    return folder


def test_a_model_folder_is_measured_with_its_machine_and_its_memory(folder):
    found = benchmark(
        [folder],
        [*TEXTS, "", " "],
        overrides=["decode.beam_size=1"],
        rounds=1,
        device="cpu",
        precision="float32",
        threads=1,
    )
    assert [(speed.model, speed.batch) for speed in found.speeds] == [(str(folder), ONE), (str(folder), ALL)]
    assert all(speed.tokens > 0 for speed in found.speeds)
    assert found.peak_bytes is None or found.peak_bytes > 0
    assert found.texts == len(TEXTS)  # a blank line costs nothing and counts for nothing
    assert (found.device, found.precision) == ("cpu", "float32")
    assert found.gemm_gflops > 0
    assert json.loads(json.dumps(found.facts()))["where"] == found.where
