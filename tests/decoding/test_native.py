"""The compiled model beside the plain one: the same log-probabilities, and the same bits in any company."""

import ctypes
import mmap
import os
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compiler import needs_compiler
from small import END, START

from dragoman.compiled import libraries
from dragoman.compiled.libraries import NotCompiled
from dragoman.decoding import compiled_stepper as compiled
from dragoman.decoding.compiled_stepper import FORMATS, NativeModel, NativeStepper, functions
from dragoman.decoding.engine import Engine
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.model_stepper import ModelStepper
from dragoman.decoding.processors import Ban, NotBlank
from dragoman.decoding.request import Request
from dragoman.decoding.scoring import score
from dragoman.decoding.steppers import Stepper
from dragoman.errors import ConfigError
from dragoman.inference.runtime import Runtime
from dragoman.model.config import ModelConfig
from dragoman.model.shapes import possible_weights, weight_shapes
from dragoman.model.transformer import EncoderDecoder, build_model
from dragoman.store.description import ModelFiles, StoredModel
from dragoman.store.tensors import effective_weights

pytestmark = needs_compiler
VOCABULARY = 41

ODD = {"d_model": 36, "heads": 6, "d_ff": 50, "encoder_layers": 2, "decoder_layers": 3}
"""Sizes that fill no register of 8 or 16 numbers; `d_model` of 30 fills none of 4 either."""
CASES: list[dict[str, Any]] = [
    {"preset": "paper"},
    {"preset": "modern"},
    {"preset": "paper", "norm_position": "pre", "final_norm": True},
    {"preset": "paper", "final_norm": True},
    {"preset": "modern", "norm_position": "post"},
    {"preset": "modern", "norm_position": "post", "final_norm": False},
    {"preset": "paper", "norm": "rms"},
    {"preset": "modern", "norm": "layer"},
    {"preset": "modern", "norm": "layer", "bias": True},
    *({"preset": "modern", "activation": each, "bias": True} for each in ("relu", "gelu", "silu", "swiglu", "geglu")),
    *({"preset": "paper", "activation": each, "bias": False} for each in ("gelu", "silu", "geglu")),
    *({"preset": "paper", "positions": each} for each in ("learned", "rotary")),
    *({"preset": "modern", "positions": each} for each in ("learned", "sinusoidal")),
    *({"preset": "modern", "kv_heads": each} for each in (1, 2, 3)),
    {"preset": "paper", "kv_heads": 2},
    *({"preset": "paper", "tied": each, "embedding_norm": True} for each in ("none", "target", "all")),
    *({"preset": "modern", "tied": each, "output_bias": True} for each in ("none", "target", "all")),
    {"preset": "modern", "embedding_scale": False, "embedding_norm": True, "positions": "learned"},
    {"preset": "modern", "position_base": 100.0, "norm_epsilon": 0.1},
    {"preset": "paper", "position_base": 100.0, "norm_epsilon": 0.1},
    {"preset": "modern", "d_model": 64, "heads": 2, "kv_heads": 1, "d_ff": 64, "target_vocabulary": 48},
    {"preset": "paper", "d_model": 128, "heads": 2, "d_ff": 16, "target_vocabulary": 160},
    *({"preset": each, "d_model": 30, "heads": 5} for each in ("paper", "modern")),
    {"preset": "modern", "d_model": 4, "heads": 2, "d_ff": 1, "encoder_layers": 1, "decoder_layers": 1},
]


def config_of(**settings: Any) -> ModelConfig:
    vocabularies = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY}
    return ModelConfig.model_validate({**ODD, **vocabularies, **settings})


def random_model(**settings: Any) -> EncoderDecoder:
    """A model each weight of which matters, also biases and norms, which are zeros and ones in a fresh one."""
    model = build_model(config_of(**settings), seed=1)
    assert isinstance(model, EncoderDecoder)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
        model.output.mul_(2)  # fresh weights find all tokens alike; these have opinions
    return model.eval()


def native(model: EncoderDecoder, precision: str = "float32", threads: int = 1) -> NativeStepper:
    return NativeStepper(NativeModel(model.config, effective_weights(model), precision), threads)


def sources(count: int, longest: int = 40) -> list[list[int]]:
    words = random.Random(3)
    lengths = [words.randint(0, longest) for _ in range(count)]
    return [[START, *(words.randrange(4, VOCABULARY) for _ in range(length)), END] for length in lengths]


def played(steppers: Sequence[Stepper], steps: int = 26) -> Iterator[list[np.ndarray]]:
    """The log-probabilities of each of these steppers after every step, whose rows join, leave, double and change
    places at random.
    """
    words, waiting, tokens = random.Random(0), sources(14), list[int]()
    for step in range(steps):
        if waiting and step % 3 == 0:
            fresh = [waiting.pop() for _ in range(min(len(waiting), words.randint(1, 3)))]
            tokens += [START] * len(fresh)
            for stepper in steppers:
                stepper.admit(fresh)
        yield [stepper.advance(np.array(tokens)).log_probs().copy() for stepper in steppers]
        chosen = np.array([words.randrange(len(tokens)) for _ in range(words.randint(1, 7))])
        for stepper in steppers:
            stepper.select(chosen)
        tokens = [words.randrange(4, VOCABULARY) for _ in chosen]


@pytest.mark.parametrize("settings", CASES, ids=lambda settings: "-".join(map(str, settings.values())))
def test_the_compiled_model_computes_what_the_plain_one_defines(settings: dict[str, Any]) -> None:
    model = random_model(**settings)
    steppers = [native(model), ModelStepper(model.double())]
    for found, expected in played(steppers):
        assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


@pytest.mark.parametrize("settings", [{}, {"d_model": 64, "heads": 2, "kv_heads": 1}, {"d_model": 128, "heads": 2}])
def test_sources_of_any_length_are_computed_as_the_plain_model_defines(settings: dict[str, Any]) -> None:
    model = random_model(preset="modern", **settings)
    words = random.Random(5)
    given = [[words.randrange(4, VOCABULARY) for _ in range(length)] for length in (1, 15, 16, 17, 127, 128, 129, 300)]
    rows = [row for row in range(len(given)) for _ in range(1 + row % 6)]
    found = []
    for stepper in (native(model, threads=2), ModelStepper(model.double())):
        stepper.admit(given)
        stepper.select(np.array(rows))
        found.append(stepper.advance(np.full(len(rows), START)).log_probs().copy())
    assert np.abs(found[0] - found[1]).max() <= 1e-4 * np.abs(found[1]).max()
    assert all((found[0][row] == found[0][row - 1]).all() for row in range(1, len(rows)) if rows[row] == rows[row - 1])


def test_a_native_stepper_is_a_stepper() -> None:
    assert isinstance(native(random_model()), Stepper)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("blank", [[], [*range(4, VOCABULARY)], [5, 9, 14, 20, 33]], ids=["none", "all", "some"])
def test_a_search_ahead_finds_what_it_finds_step_by_step(width: int, blank: list[int]) -> None:
    spellings = [b" " if token in blank else b"a" for token in range(VOCABULARY)]
    rules = Ban([START, 7]), NotBlank(spellings, END, str.isspace), Ban([8])
    requests = [Request(source, 3 + 5 * number, width, width, 0.6, rules) for number, source in enumerate(sources(9))]
    model = random_model(preset="modern")
    one_by_one, ahead = (Engine(native(model), start=START, end=END) for _ in range(2))
    results: list[dict[int, list[Hypothesis]]] = []
    calls: list[int] = []
    for engine, may_write_ahead in ((one_by_one, False), (ahead, True)):
        for request in requests:
            engine.admit(request)
        finished = dict[int, list[Hypothesis]]()
        calls.append(0)
        while engine.busy:
            finished.update((result.ticket, result.hypotheses) for result in engine.step(may_write_ahead))
            calls[-1] += 1
        results.append(finished)
    assert results[0] == results[1]
    assert one_by_one.steps == ahead.steps == calls[0]
    assert calls[1] < calls[0] or blank


def test_a_search_ahead_never_begins_with_the_end_and_lets_waiting_requests_enter() -> None:
    model, source = random_model(preset="modern"), sources(1)[0]
    engine = Engine(native(model), start=START, end=END)
    engine.admit(Request(source, 2))
    likeliest = next(engine.run()).hypotheses[0].tokens[0]
    rules = (NotBlank([b"a"] * VOCABULARY, likeliest, str.isspace),)
    ahead = Engine(native(model), start=START, end=likeliest, batch_tokens=1)
    for _ in range(2):
        ahead.admit(Request(source, 6, processors=rules))
    ahead.step(ahead=True)
    assert ahead.steps == 1, "a request waits"
    assert all(result.hypotheses[0].tokens[0] != likeliest for result in ahead.run())


@pytest.mark.parametrize("settings", CASES, ids=lambda settings: "-".join(map(str, settings.values())))
def test_every_weight_of_a_model_is_read(settings: dict[str, Any]) -> None:
    config = config_of(**settings)
    assert weight_shapes(config).keys() == effective_weights(random_model(**settings)).keys()


def test_no_weight_is_read_that_no_model_has() -> None:
    known = {name for settings in CASES for name in weight_shapes(config_of(**settings))}
    assert {name for settings in CASES for name, _ in possible_weights(config_of(**settings))} == known


WIDE = {"preset": "modern", "d_model": 64, "heads": 4, "d_ff": 200}
"""Work enough for two threads to share."""
SHAPES = {
    "odd": {"preset": "paper"},
    "wide": WIDE,
    "heads of 32": {"preset": "modern", "d_model": 128, "heads": 4, "kv_heads": 2},
    "heads of 64": {"preset": "modern", "d_model": 128, "heads": 2},
}


def written(stepper: NativeStepper, entering: Sequence[Sequence[int]], steps: int = 12) -> list[list[np.ndarray]]:
    """What each row gives at each of its steps. Source number n is fed tokens of its own, whenever it enters: the first
    three at once, another at each step.
    """
    given: list[list[np.ndarray]] = [[] for _ in entering]
    rows: list[int] = []
    while any(len(each) < steps for each in given):
        arrived = max(rows, default=-1) + 1
        fresh = range(arrived, min(len(entering), max(3, arrived + 1)))
        if fresh:
            stepper.admit([entering[number] for number in fresh])
            rows += fresh
        places = [(sum(entering[number]) + len(given[number])) % (VOCABULARY - 4) + 4 for number in rows]
        for number, row in zip(rows, stepper.advance(np.array(places)).log_probs(), strict=True):
            given[number].append(row.copy())
        if len(rows) > 3:
            stepper.select(np.arange(len(rows))[::-1].copy())
            rows.reverse()
    return [each[:steps] for each in given]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", FORMATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_sentence_alone_and_in_any_company_gives_the_same_bits(shape: str, precision: str, threads: int) -> None:
    model = random_model(**SHAPES[shape])
    packed = NativeModel(model.config, effective_weights(model), precision)
    together = written(NativeStepper(packed, threads), sources(20))
    for source, company in zip(sources(20), together, strict=True):
        (alone,) = written(NativeStepper(packed), [source])
        assert np.array_equal(alone, company)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads Linux's /proc")
def test_threads_of_a_stepper_give_the_same_bits_and_leave_with_it() -> None:
    def running() -> set[str]:
        return set(os.listdir("/proc/self/task"))

    model, before = random_model(**WIDE), running()
    stepper = native(model, threads=4)
    together = written(stepper, sources(20))
    helpers = running() - before
    assert len(helpers) == 3
    assert all(map(np.array_equal, written(native(model), sources(20)), together))
    del stepper
    until = time.monotonic() + 60
    while helpers & running() and time.monotonic() < until:
        time.sleep(0.01)
    assert not helpers & running()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "pthread_setattr_default_np"), reason="the C library is not glibc")
def test_where_the_system_grants_no_more_threads_fewer_give_the_same_bits() -> None:
    library, usual, huge = ctypes.CDLL(None), ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    assert library.pthread_getattr_default_np(usual) == library.pthread_getattr_default_np(huge) == 0
    assert library.pthread_attr_setstacksize(huge, ctypes.c_size_t(1 << 46)) == 0
    model = random_model(**WIDE)
    expected, stepper = written(native(model), sources(20)), native(model, threads=4)
    library.pthread_setattr_default_np(huge)
    try:
        assert all(map(np.array_equal, written(stepper, sources(20)), expected))
    finally:
        library.pthread_setattr_default_np(usual)


@pytest.mark.parametrize("precision", FORMATS)
def test_sources_that_are_read_together_give_the_same_bits_as_one_after_the_other(precision: str) -> None:
    """The encoder reads at most some hundred tokens at a time."""
    model, rows = random_model(**WIDE), sources(30)
    at_once, one_by_one = native(model, precision, threads=2), native(model, precision)
    at_once.admit(rows)
    for row in rows:
        one_by_one.admit([row])
    start = np.full(len(rows), START)
    assert np.array_equal(at_once.advance(start).log_probs(), one_by_one.advance(start).log_probs())


@pytest.mark.parametrize("precision", FORMATS)
def test_a_source_that_comes_several_times_in_a_row_gives_each_row_what_it_gives_alone(precision: str) -> None:
    first, second = sources(2)
    entering, fed = [first, first, first, second, first], [[START, token] for token in range(4, 9)]
    packed = native(random_model(**WIDE), precision).model
    together = NativeStepper(packed)
    together.admit(entering)
    begun = together.advance(np.array([tokens[0] for tokens in fed])).log_probs().copy()
    together.select(np.array([2, 3, 4, 1]))  # the row that was first of its kind leaves
    gone_on = together.advance(np.array([fed[row][1] for row in (2, 3, 4, 1)])).log_probs()
    for row, found in zip((2, 3, 4, 1), gone_on, strict=True):
        alone = NativeStepper(packed)
        alone.admit([entering[row]])
        assert np.array_equal(alone.advance(np.array([START])).log_probs()[0], begun[row])
        assert np.array_equal(alone.advance(np.array(fed[row][1:])).log_probs()[0], found)


def test_int8_sums_of_the_widest_axis_do_not_overflow() -> None:
    model = random_model(preset="paper", d_model=8, heads=2, d_ff=65_536, encoder_layers=1, decoder_layers=1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "feed_forward.inner" in name:
                weight.fill_(float(name.endswith("bias")))  # so every number of the wide row is one
            if name.endswith("feed_forward.outer.weight"):
                weight.copy_(0.01 * weight.sign()[:, :1].expand_as(weight))
    for found, exact in played([native(model, "int8"), native(model)], steps=6):
        assert np.linalg.norm(found - exact) <= BOUNDS["int8"] * np.linalg.norm(exact)


BOUNDS = {"bf16": 0.02, "int8": 0.04}
"""How far log-probabilities are from those of float32 at most, relative to their size: five times what was measured."""


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_fewer_bits_give_nearly_the_same_log_probabilities(preset: str, precision: str) -> None:
    model = random_model(preset=preset)
    for found, exact in played([native(model, precision), native(model)]):
        assert np.linalg.norm(found - exact) <= BOUNDS[precision] * np.linalg.norm(exact)
        assert not np.array_equal(found, exact)
        np.testing.assert_allclose(np.exp(found).sum(1), 1, rtol=1e-4)


@pytest.mark.parametrize("precision", FORMATS)
def test_two_steppers_of_one_model_in_two_threads_do_what_they_do_one_after_the_other(precision: str) -> None:
    model = random_model(**WIDE)
    packed = NativeModel(model.config, effective_weights(model), precision)
    rows = [sources(16)[:8], sources(16)[8:]]
    one_by_one = [written(NativeStepper(packed), each, steps=20) for each in rows]
    with ThreadPoolExecutor(2) as pool:
        side_by_side = list(pool.map(lambda each: written(NativeStepper(packed), each, steps=20), rows))
    for one, other in zip(one_by_one, side_by_side, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("precision", FORMATS)
@pytest.mark.parametrize(
    "name",
    [
        "source_embedding.weight",
        "output",
        "encoder.blocks.0.self_attention.key.weight",
        "encoder.blocks.1.feed_forward.inner.weight",
        "decoder.blocks.0.self_residual.norm.weight",
        "decoder.blocks.1.cross_attention.value.weight",
        "decoder.blocks.2.feed_forward.outer.weight",
    ],
)
def test_a_weight_that_is_nan_is_seen_in_every_output(name: str, precision: str) -> None:
    model = random_model(preset="modern")
    weights = effective_weights(model)
    weights[name] = weights[name].copy()
    weights[name][..., 5] = np.nan
    stepper = NativeStepper(NativeModel(model.config, weights, precision))
    stepper.admit(sources(3))
    step = stepper.advance(np.full(3, START))
    assert np.isnan(step.best(4).log_prob).all()
    assert np.isnan(step.log_probs()).all()


@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_given_targets_are_scored_as_by_the_plain_model(preset: str) -> None:
    model, rows, targets = random_model(preset=preset), sources(12), [each[1:] for each in sources(24)[12:]]
    compiled = score(lambda: native(model), rows, targets, START, batch_tokens=100, workers=2)
    plain = score(lambda: ModelStepper(model), rows, targets, START)
    for one, other in zip(compiled, plain, strict=True):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("vocabulary", [33, 41, 48])
def test_nothing_behind_the_logits_is_read(vocabulary: int) -> None:
    """They end where memory ends that may be read: a read behind them ends the process."""
    stepper = native(random_model(target_vocabulary=vocabulary))
    stepper.admit(sources(1))
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    held = ctypes.c_char.from_buffer(pages)  # keeps them where they are
    end = ctypes.addressof(held) + mmap.PAGESIZE
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(end, mmap.PAGESIZE, 0) == 0
    norm, values, tokens = np.empty(1, np.float32), np.empty(4, np.float32), np.empty(4, np.int64)
    logits, start = end - 4 * vocabulary, np.array([START])
    assert functions().decoder_advance(stepper._decoder, start.ctypes.data, logits, norm.ctypes.data) == 0
    functions().best(logits, norm.ctypes.data, 1, vocabulary, 4, values.ctypes.data, tokens.ctypes.data)
    fresh = native(random_model(target_vocabulary=vocabulary))
    fresh.admit(sources(1))
    assert np.array_equal(fresh.advance(start).best(4).log_prob[0], values)
    assert protect(end, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.mark.parametrize("token", [-1, VOCABULARY, 10**12])
def test_a_token_that_the_model_does_not_have_is_refused(token: int) -> None:
    model = random_model(preset="modern")
    with pytest.raises(IndexError, match="beyond those that the model has"):
        native(model).admit([[START, token, END]])
    stepper = native(model)
    stepper.admit([[START, 7, END]])
    with pytest.raises(IndexError, match="beyond those that the model has"):
        stepper.advance(np.array([token]))
    with pytest.raises(IndexError, match="beyond those that the model has"):
        native(model).score([[START, 7, END]], [[START]], [[token]])


def test_a_position_that_the_model_does_not_have_is_refused() -> None:
    model = random_model(preset="paper", positions="learned", max_positions=4)
    native(model).admit([[START, 7, 8, END]])
    with pytest.raises(IndexError, match="beyond those that the model has"):
        native(model).admit([[START, 7, 8, 9, END]])


def test_without_a_compiler_the_reason_is_asked_for_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[int] = []

    def refuse(*_: object) -> None:
        asked.append(1)
        raise NotCompiled("no C++ compiler was found")

    monkeypatch.setattr(compiled._PREPARED, "loaded", {})
    monkeypatch.setattr(compiled._PREPARED, "failure", None)
    monkeypatch.setattr(libraries, "load_libraries", refuse)
    model = random_model(preset="paper")
    stored = StoredModel(model, model.config, ModelFiles(), Path("model"))
    runtimes = [Runtime(stored, "cpu", "float32") for _ in range(2)]
    assert all(isinstance(each.stepper(1), ModelStepper) for each in runtimes)
    assert len(asked) == 1 and sum("no C++ compiler" in each.message for each in caplog.records) == 1
    with pytest.raises(ConfigError, match="int8 needs the CPU as device and a C\\+\\+ compiler"):
        Runtime(stored, "cpu", "int8")
