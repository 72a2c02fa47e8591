"""Samples: drawn as a plain walk along the sorted probabilities draws them, whatever else is under way."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_search import Toy, drawn, greedy, search

import dragoman
from dragoman.cli.main import main
from dragoman.decoding.engine import Engine
from dragoman.decoding.model_stepper import TensorScores
from dragoman.decoding.processors import Ban, MinimumLength
from dragoman.decoding.request import Request
from dragoman.decoding.sampling import Sampling, draw
from dragoman.errors import ConfigError, DecodeError
from dragoman.inference.translation import Translation

SIZE, START, END = 6, 0, 1

SAMPLINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.3, 1.0, 2.5]),
    top_k=st.none() | st.integers(1, SIZE + 2),
    top_p=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    seed=st.integers(0, 5),
    sample=st.integers(0, 3),
)


def sample(toy: Toy, source: Sequence[int], sampling: Sampling, **request: Any) -> tuple[int, ...]:
    engine = Engine(toy, start=START, end=END)
    ((found,),) = search(engine, [Request(source, **{"limit": 8, "sampling": sampling, **request})])
    return found.tokens


def draws(log_prob: torch.Tensor, samplings: Sequence[Sampling], uniforms: Sequence[float]) -> list[int]:
    """The token that each row draws, with its log-probability."""
    found = draw(TensorScores(log_prob), np.arange(len(log_prob)), samplings, uniforms)
    assert found.log_prob[:, 0].tolist() == log_prob.gather(1, torch.tensor(found.token))[:, 0].tolist()
    return found.token[:, 0].tolist()


def uniforms_of(source: Sequence[int], sampling: Sampling) -> list[float]:
    return [Request(source, 8, sampling=sampling).uniform(position) for position in range(8)]


@given(sampling=SAMPLINGS, source=st.lists(st.integers(0, 9), min_size=1, max_size=4), ties=st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_sample_is_that_of_the_plain_walk(sampling: Sampling, source: list[int], ties: bool) -> None:
    toy = Toy(SIZE, ties=ties)
    ((found,),) = search(Engine(toy, start=START, end=END), [Request(source, 8, sampling=sampling)])
    uniforms = uniforms_of(source, sampling)
    tokens, total = drawn(toy.model(source), 8, END, uniforms, sampling)
    assert found.tokens == tokens
    assert found.total == pytest.approx(total, abs=1e-5), "scores are the model's own"


def test_rules_come_before_the_draw() -> None:
    toy, never = Toy(SIZE), (Ban([2]), MinimumLength(3, END))
    for seed in range(20):
        sampling = Sampling(seed=seed, temperature=2.0)
        (found,) = search(Engine(toy, start=START, end=END), [Request([seed], 8, processors=never, sampling=sampling)])[
            0
        ]
        assert 2 not in found.tokens and END not in found.tokens[:3]

        def masked(tokens: tuple[int, ...], source: int = seed) -> list[float]:
            log_probs = Toy(SIZE).model([source])(tokens)
            banned = {2} | ({END} if len(tokens) < 3 else set())
            return [-math.inf if token in banned else value for token, value in enumerate(log_probs)]

        uniforms = uniforms_of([seed], sampling)
        assert found.tokens == drawn(masked, 8, END, uniforms, sampling)[0]


@pytest.mark.parametrize("sampling", [Sampling(top_k=1), Sampling(temperature=1e-6), Sampling(top_p=1e-9)])
def test_the_narrowest_draws_are_greedy(sampling: Sampling) -> None:
    for number in range(20):
        assert sample(Toy(SIZE), [number], sampling) == greedy(Toy(SIZE).model([number]), 8, END)[0]


def test_samples_of_one_request_differ_and_each_is_the_same_in_any_company() -> None:
    request = Request([4, 5], 8, processors=(Ban([END]),), sampling=Sampling(temperature=3.0, seed=7))
    together = [found[0].tokens for found in search(Engine(Toy(SIZE), start=START, end=END), request.samples(12))]
    assert len(set(together)) == 12
    for number, tokens in enumerate(together):
        assert sample(Toy(SIZE), [4, 5], Sampling(3.0, seed=7, sample=number), processors=request.processors) == tokens


def test_every_source_has_random_numbers_of_its_own() -> None:
    """Otherwise all texts of one seed would begin with tokens of one rank."""
    log_prob, sampling = torch.full((1, 10), 0.1).log(), Sampling(seed=3)
    requests = [Request([number, 5], 8, sampling=sampling) for number in range(5_000)]
    first, second = ([each.uniform(position) for each in requests] for position in (0, 1))
    tokens = draws(log_prob.expand(5_000, 10), [sampling] * 5_000, first)
    counts = Counter(tokens)
    assert chi_square([0.1] * 10, [counts[token] for token in range(10)]) < 27.9, "0.1 % of fair draws are further off"
    assert len({*first, *second}) == 10_000
    prompts = [Request([1], 8, sampling=sampling, start=start).uniform(0) for start in (2, 3)]
    assert len(set(prompts)) == 2 and prompts[0] == Request([1], 20, sampling=sampling, start=2).uniform(0)


def chi_square(probabilities: Sequence[float], counts: Sequence[int]) -> float:
    total = sum(counts)
    return sum((count - total * p) ** 2 / (total * p) for p, count in zip(probabilities, counts, strict=True) if p)


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(seed=3), [0.4, 0.3, 0.15, 0.1, 0.05]),
        (Sampling(seed=3, top_k=2), [4 / 7, 3 / 7, 0, 0, 0]),
        (Sampling(seed=3, top_p=0.7), [4 / 7, 3 / 7, 0, 0, 0]),  # reaches 0.7 with its second token
        (Sampling(seed=3, top_p=0.71), [0.4 / 0.85, 0.3 / 0.85, 0.15 / 0.85, 0, 0]),
        (Sampling(seed=3, top_k=3, top_p=0.8), [4 / 7, 3 / 7, 0, 0, 0]),  # 0.7 of 0.85 is more than 0.8
        (Sampling(seed=3, temperature=0.5), [p * p / 0.285 for p in (0.4, 0.3, 0.15, 0.1, 0.05)]),
    ],
)
def test_draws_follow_the_distribution(sampling: Sampling, expected: list[float]) -> None:
    shuffled = [3, 0, 4, 1, 2]  # the token of each rank
    log_prob = torch.empty(1, 5, dtype=torch.float64)
    log_prob[0, shuffled] = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05], dtype=torch.float64).log()
    count = 20_000
    uniforms = [sampling.uniform(bytes(24), position) for position in range(count)]
    tokens = draws(log_prob.expand(count, 5), [sampling] * count, uniforms)
    counts = Counter(tokens)
    found = [counts[token] for token in shuffled]
    assert all(number == 0 for number, p in zip(found, expected, strict=True) if p == 0)
    assert chi_square(expected, found) < 18.5, "0.1 % of fair draws are further off, with four degrees of freedom"
    neighbours = Counter(itertools.pairwise(tokens))
    pairs = [
        (p * q, neighbours[a, b])
        for p, a in zip(expected, shuffled, strict=True)
        for q, b in zip(expected, shuffled, strict=True)
    ]
    assert chi_square(*zip(*pairs, strict=True)) < 55, "neighbouring positions are independent, with 24 degrees"


def test_rows_with_different_settings_are_drawn_as_alone() -> None:
    log_prob = torch.randn(40, 30, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    samplings = [Sampling(0.5 + row / 20, row % 7 or None, 1 - row % 5 / 10, row, row % 3) for row in range(40)]
    uniforms = [each.uniform(bytes(24), row) for row, each in enumerate(samplings)]
    together = draws(log_prob, samplings, uniforms)
    alone = [draws(log_prob[[row]], [samplings[row]], [uniforms[row]]) for row in range(40)]
    assert [[token] for token in together] == alone


def test_a_sample_with_nothing_left_to_draw_ends_and_a_broken_model_is_named() -> None:
    assert sample(Toy(SIZE), [1], Sampling(), processors=(Ban(range(SIZE)),)) == ()
    broken = Toy(SIZE)
    broken.log_probs = lambda source, tokens: torch.full((SIZE,), math.nan)
    with pytest.raises(DecodeError, match="outputs are NaN"):
        sample(broken, [1], Sampling())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"temperature": 0.0}, "temperature must be above 0 and finite, but is 0.0; without sampling, a search is"),
        ({"temperature": -1.0}, "temperature must be above 0"),
        ({"temperature": math.nan}, "temperature must be above 0"),
        ({"temperature": math.inf}, "temperature must be above 0 and finite, but is inf"),
        ({"seed": -1}, "seed must be from 0 to 2.63 - 1, but is -1"),
        ({"seed": 2**64}, "seed must be from 0 to 2.63 - 1, but is 18446744073709551616"),
        ({"sample": -1}, "sample must be from 0 to 2.63 - 1, but is -1"),
        ({"top_k": 0}, "top_k must be at least 1, but is 0; leave it out"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, but is 0.0"),
        ({"top_p": 1.1}, "top_p must be above 0 and at most 1"),
    ],
)
def test_a_draw_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        Sampling(**given)


def test_a_sample_has_no_beam() -> None:
    with pytest.raises(DecodeError, match="has one row, but beam_size is 4"):
        Request([1], 5, beam_size=4, sampling=Sampling())


# Translations


def options(**given: Any) -> dragoman.SearchOptions:
    return dragoman.SearchOptions(**given)


@pytest.fixture(scope="module")
def translator(run_folder: Path) -> dragoman.Translator:
    return dragoman.Translator.load(run_folder, device="cpu", precision="float32")


TEXTS = ["Where is the station?", "", "The cat sleeps. The dog barks."]


def test_samples_of_a_translation_are_as_many_as_asked_for_and_the_first_is_that_of_one(
    translator: dragoman.Translator,
) -> None:
    sampled = options(temperature=1.5, n_best=5)
    found = translator.translate(TEXTS, sampled)
    assert [len(each.alternatives) for each in found] == [4, 0, 4]
    assert len({each.text for each in (found[2], *found[2].alternatives)}) > 1
    single = translator.translate(TEXTS, options(temperature=1.5))
    assert [each.text for each in single] == [each.text for each in found]
    assert [translator.translate([text], sampled)[0].text for text in TEXTS] == [each.text for each in found]
    other = translator.translate(TEXTS, options(temperature=1.5, n_best=5, seed=2))
    assert [each.text for each in other] != [each.text for each in found]


def test_the_scores_of_samples_are_the_models_own(translator: dragoman.Translator) -> None:
    (found,) = translator.translate(TEXTS[:1], options(temperature=0.7, top_k=20, top_p=0.9, n_best=3))
    for each in (found, *found.alternatives):
        if "truncated" not in each.flags and translator.tokenizers.target.encode(each.text):
            assert each.log_prob == pytest.approx(sum(each.token_log_probs), abs=1e-4)


def test_a_stream_of_samples_is_the_translation(translator: dragoman.Translator) -> None:
    def returned(sampled: dragoman.SearchOptions) -> Iterator[str]:
        whole.append((yield from translator.stream(TEXTS[2], sampled)))

    for sampled in (options(top_p=0.9), options(temperature=1.5, n_best=3)):
        whole = list[Translation]()
        text = "".join(returned(sampled))
        [found] = translator.translate(TEXTS[2:], sampled)
        assert text == found.text == whole[0].text
        assert [each.text for each in whole[0].alternatives] == [each.text for each in found.alternatives]
        assert len(whole[0].alternatives) == sampled.n_best - 1


def test_drawing_from_one_token_is_greedy_search(translator: dragoman.Translator) -> None:
    greedy_options = options(beam_size=1)
    one = [each.text for each in translator.translate(TEXTS, options(top_k=1))]
    assert one == [each.text for each in translator.translate(TEXTS, greedy_options)]


def test_any_setting_of_a_draw_switches_it_on() -> None:
    assert options().sampling is None and options(seed=5).sampling is None
    assert options(top_k=3).sampling == Sampling(1.0, 3, 1.0, 1)
    assert options(temperature=0.5, seed=4).sampling == Sampling(0.5, None, 1.0, 4)
    assert options(top_p=0.5).searching(n_best=2).sampling is None


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("decode.temperature=0", "decode.temperature should be greater than 0, but is 0"),
        ("decode.top_k=0", "decode.top_k should be greater than or equal to 1, but is 0"),
        ("decode.top_p=0", "decode.top_p should be greater than 0, but is 0"),
        ("decode.top_p=2", "decode.top_p should be less than or equal to 1, but is 2"),
        ("top_p=0.5 --beam-size 4", "top_p=0.5 draws samples and --beam-size 4 searches; leave one of them out"),
    ],
)
def test_a_wrong_setting_of_a_draw_is_one_line(
    setting: str, message: str, run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", str(run_folder), "hello", "--set", *setting.split()]) == ConfigError.exit_code
    assert message in capsys.readouterr().err


def test_the_command_draws_samples(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["translate", str(run_folder), "the dog", "--n-best", "3", "--set", "decode.temperature=2.0"]
    assert main([*arguments, "--set", "decode.length_extra=1", "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[:2] for line in lines] == [["1", "1"], ["1", "2"], ["1", "3"]]


@pytest.mark.parametrize("top_k", [None, 150])
@pytest.mark.parametrize("top_p", [0.3, 0.5, 0.9])
def test_top_p_is_a_share_of_all_tokens_of_a_large_vocabulary(top_p: float, top_k: int | None) -> None:
    """Two hundred tokens, nearly alike: the likeliest few hold a small part of the probability."""
    log_prob = (-torch.arange(200) / 400).log_softmax(-1)
    left = log_prob.exp()[:top_k].double()
    reached = (left / left.sum()).cumsum(0)
    last = int((reached < top_p).sum())
    uniforms = [0.0, 0.3, 0.7, 0.999999]
    wanted = [int((reached <= uniform * reached[last]).sum()) for uniform in uniforms]
    samplings = [Sampling(top_p=top_p, top_k=top_k)] * len(uniforms)
    assert draws(log_prob.repeat(len(uniforms), 1), samplings, uniforms) == wanted
    assert wanted[-1] == last
