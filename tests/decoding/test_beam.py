"""The search over toy models, against plain loops. Nothing here knows a Transformer."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_search import Toy, beam_search, defined, every_ended, greedy, normalised, search

from dragoman.decoding.batched_beam import expand
from dragoman.decoding.engine import Engine
from dragoman.decoding.hypothesis import Hypothesis, length_penalty
from dragoman.decoding.model_stepper import TensorScores
from dragoman.decoding.processors import Ban, ForcedPrefix, MinimumLength, NoRepeatedNgram
from dragoman.decoding.request import Request
from dragoman.decoding.steppers import Stepper, StepScores
from dragoman.errors import DecodeError

START, END = 0, 1


def found(
    toy: Toy, sources: list[list[int]], limits: list[int], batch_tokens: int = 4096, **settings: Any
) -> list[list[Hypothesis]]:
    requests = [Request(source, limit, **settings) for source, limit in zip(sources, limits, strict=True)]
    return search(Engine(toy, start=START, end=END, batch_tokens=batch_tokens), requests)


def test_the_toy_is_a_stepper() -> None:
    assert isinstance(Toy(4), Stepper)
    assert isinstance(TensorScores(torch.zeros(1, 4)), StepScores)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_greedy_takes_the_likeliest_token_at_each_step(seed: int, ties: bool) -> None:
    toy = Toy(6, seed, ties)
    ((hypothesis,),) = found(toy, [[5]], [9], beam_size=1)
    tokens, total = greedy(toy.model([5]), 9, END)
    assert hypothesis.tokens == tokens
    assert hypothesis.total == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("ties", [False, True])
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(1, 5),
    data=st.data(),
    exponent=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    limit=st.integers(1, 7),
)
@settings(max_examples=60)
def test_beam_equals_the_plain_loops_exactly_also_in_ties(
    ties: bool, seed: int, width: int, data: st.DataObject, exponent: float, limit: int
) -> None:
    toy, wanted = Toy(5, seed, ties), data.draw(st.integers(1, width))
    (hypotheses,) = found(toy, [[5]], [limit], beam_size=width, n_best=wanted, length_penalty=exponent)
    expected = beam_search(toy.model([5]), width, wanted, limit, exponent, END)
    assert [h.tokens for h in hypotheses] == [tokens for tokens, _ in expected]
    assert [h.total for h in hypotheses] == pytest.approx([total for _, total in expected], abs=1e-5)


RULES = st.lists(
    st.sampled_from(
        [
            Ban([2]),
            Ban([END]),
            Ban([END, 2, 3, 4]),
            MinimumLength(3, END),
            NoRepeatedNgram(1),
            NoRepeatedNgram(2),
            ForcedPrefix([4, 3]),
        ]
    ),
    max_size=3,
    unique=True,
)
WISHES = st.fixed_dictionaries(
    {
        "limit": st.integers(1, 9),
        "beam_size": st.integers(1, 5),
        "n_best": st.integers(1, 5),
        "length_penalty": st.sampled_from([0.0, 0.6, 1.0, 3.0]),
        "processors": RULES.map(tuple),
        "early_stopping": st.booleans(),
    }
)
TOYS = st.builds(Toy, st.integers(5, 7), st.integers(0, 10**6), st.booleans())


@given(toy=TOYS, wishes=WISHES)
@settings(max_examples=80)
def test_the_engine_finds_what_the_search_in_plain_python_finds_to_the_bit(toy: Toy, wishes: dict[str, Any]) -> None:
    (hypotheses,) = search(Engine(toy, start=START, end=END), [wished(wishes)])
    assert hypotheses == defined(toy, wished(wishes), END)


def wished(wishes: dict[str, Any], **others: Any) -> Request:
    return Request([5], **{**wishes, "n_best": min(wishes["n_best"], wishes["beam_size"]), **others})


@given(toy=TOYS, limit=st.integers(1, 9), stop=st.integers(2, 4))
@settings(max_examples=30)
def test_an_output_that_stops_by_itself_is_that_of_the_search_in_plain_python(toy: Toy, limit: int, stop: int) -> None:
    request = Request([5], limit, stops=lambda tokens: stop in tokens)
    (hypotheses,) = search(Engine(toy, start=START, end=END), [request])
    assert hypotheses == defined(toy, request, END)


@given(toy=TOYS, wishes=WISHES)
@settings(max_examples=100)
def test_a_search_that_does_not_stop_early_finds_nothing_worse(toy: Toy, wishes: dict[str, Any]) -> None:
    engine = Engine(toy, start=START, end=END)
    early, late = search(engine, [wished(wishes, early_stopping=early) for early in (True, False)])
    scores = [[h.score(wishes["length_penalty"]) for h in found if h.finished] for found in (early, late)]
    assert all(one <= other for one, other in zip(*scores, strict=False))
    assert len(scores[0]) <= len(scores[1])


def test_a_search_that_does_not_stop_early_finds_something_better_now_and_then() -> None:
    """Otherwise the setting would do nothing."""
    better = 0
    for seed in range(60):
        engine, request = Engine(Toy(5, seed), start=START, end=END), Request([5], 9, 2, length_penalty=1.0)
        (early,), (late,) = search(engine, [request, replace(request, early_stopping=False)])
        better += late.score(1.0) > early.score(1.0)
    assert better


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", range(5))
def test_a_beam_as_wide_as_all_outputs_finds_the_best_of_them(seed: int, exponent: float) -> None:
    toy = Toy(4, seed)
    (hypotheses,) = found(toy, [[5]], [4], beam_size=120, n_best=7, length_penalty=exponent)
    assert [h.tokens for h in hypotheses] == [t for t, _ in every_ended(toy.model([5]), 4, 4, END, exponent)[:7]]


@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    width=st.integers(1, 3),
    batch_tokens=st.integers(1, 60),
)
@settings(max_examples=40)
def test_a_sentence_finds_the_same_alone_and_in_any_company(lengths: list[int], width: int, batch_tokens: int) -> None:
    sources = [[number, *range(length)] for number, length in enumerate(lengths)]
    limits = [length + 3 for length in lengths]
    together = found(Toy(5), sources, limits, beam_size=width, n_best=width, batch_tokens=batch_tokens)
    alone = [found(Toy(5), [s], [m], beam_size=width, n_best=width)[0] for s, m in zip(sources, limits, strict=True)]
    assert together == alone


def test_rows_under_way_stay_within_the_room_and_are_refilled() -> None:
    toy = Toy(5)
    sources = [[number] * 4 for number in range(40)]
    engine = Engine(toy, start=START, end=END, batch_tokens=80)
    for source in sources:
        engine.admit(Request(source, 8, beam_size=2))
    seen, entered_under_way = set(), False
    while engine.busy:
        before = set(engine.active)
        seen |= {ticket for ticket, _ in engine.step()}
        now = set(engine.active)
        entered_under_way |= bool(before & now) and bool(now - before)
    assert seen == set(range(40))
    assert toy.most_rows == 80 // 4
    assert entered_under_way
    assert toy.rows == []


def test_scores_are_log_probabilities_over_the_length_penalty() -> None:
    (hypotheses,) = found(Toy(5), [[7]], [9], beam_size=4, n_best=4, length_penalty=0.6)
    for h in hypotheses:
        assert h.total == pytest.approx(sum(h.log_probs), abs=1e-5)
        assert h.score(0.6) == pytest.approx(normalised(h.total, len(h.tokens), 0.6))
    scores = [h.score(0.6) for h in hypotheses if h.finished]
    assert scores == sorted(scores, reverse=True)


def test_penalty_is_that_of_wu_et_al() -> None:
    assert length_penalty(13, 1.0) == 3.0
    assert length_penalty(100, 0.0) == 1.0


def test_a_hypothesis_that_reaches_the_limit_is_handed_back_unended() -> None:
    class Endless(Toy):
        def log_probs(self, source, tokens):
            return super().log_probs(source, tokens).index_fill(0, torch.tensor([END]), -torch.inf)

    ((hypothesis,),) = found(Endless(5), [[5]], [6], beam_size=3)
    assert not hypothesis.finished
    assert len(hypothesis.tokens) == 6


def test_a_row_with_nowhere_to_go_ends_the_sentence() -> None:
    class Dead(Toy):
        def log_probs(self, source, tokens):
            log_probs = super().log_probs(source, tokens).index_fill(0, torch.tensor([END]), -torch.inf)
            return log_probs if len(tokens) < 2 else torch.full_like(log_probs, -torch.inf)

    for width in (1, 3):
        ((hypothesis,),) = found(Dead(5), [[5]], [6], beam_size=width)
        assert (len(hypothesis.tokens), hypothesis.finished) == (2, False)


def test_nan_log_probabilities_are_refused() -> None:
    class Broken(Toy):
        def log_probs(self, source, tokens):
            return torch.full((self.size,), torch.nan)

    for width in (1, 3):
        with pytest.raises(DecodeError, match="NaN"):
            found(Broken(5), [[5]], [6], beam_size=width)


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("rank", [0, 1])
def test_one_nan_in_one_hypothesis_is_refused_although_the_others_could_go_on(width: int, rank: int) -> None:
    class Cracked(Toy):
        def log_probs(self, source, tokens):
            log_probs = super().log_probs(source, tokens)
            if len(tokens) == 2 and tokens == second[min(rank, width - 1)].tokens:
                log_probs[-1] = torch.nan
            return log_probs

    ((*second,),) = found(Toy(9, seed=3), [[5]], [2], beam_size=width, n_best=width, processors=(Ban([END]),))
    with pytest.raises(DecodeError, match="NaN"):
        found(Cracked(9, seed=3), [[5]], [6], beam_size=width, processors=(Ban([END]),))


def test_expand_continues_the_hypotheses_of_each_sentence() -> None:
    total = np.array([[0.0, -1.0], [-5.0, -np.inf]])
    log_prob = torch.tensor([[-1.0, -9.0, -2.0], [-0.5, -9.0, -9.0], [-1.0, -2.0, -3.0], [-1.0, -2.0, -3.0]])
    best = expand(total, TensorScores(log_prob).best(4))
    assert best.total.tolist()[0] == [-1.0, -1.5, -2.0, -9.0]
    assert best.parent.tolist()[0] == [0, 1, 0, 0]
    assert best.token.tolist()[0] == [0, 0, 2, 1]
    assert best.log_prob.tolist()[0] == [-1.0, -0.5, -2.0, -9.0]
    assert best.parent.tolist()[1][:3] == [0, 0, 0]
    assert best.token.tolist()[1][:3] == [0, 1, 2]


@given(
    rows=st.lists(st.lists(st.integers(-3, 0), min_size=7, max_size=7), min_size=1, max_size=4), count=st.integers(1, 9)
)
def test_best_tokens_break_ties_by_the_lower_id(rows: list[list[int]], count: int) -> None:
    value, token = TensorScores(torch.tensor(rows, dtype=torch.float32)).best(count)
    for row, values, tokens in zip(rows, value.tolist(), token.tolist(), strict=True):
        expected = sorted(range(7), key=lambda i: (-row[i], i))[:count]
        assert tokens == expected
        assert values == [row[i] for i in expected]


@pytest.mark.parametrize("count", [1, 3, 7])
def test_the_best_token_of_a_row_with_nan_is_nan_also_beside_rows_with_ties(count: int) -> None:
    log_prob = torch.tensor([[-1.0, -2, -torch.nan, -3, -4, -5, -6], [-1.0] * 7])
    value, token = TensorScores(log_prob).best(count)
    assert np.isnan(value[0, 0])
    assert token.tolist() == [[2, 0, 1, 3, 4, 5, 6][:count], list(range(count))]


def test_all_live_hypotheses_begin_with_what_they_agree_on_and_so_does_the_result() -> None:
    for seed, width in itertools.product(range(30), (1, 2, 4)):
        engine = Engine(Toy(4, seed), start=START, end=END)
        ticket = engine.admit(Request([5], 8, beam_size=width, length_penalty=0.6))
        agreed: list[tuple[int, ...]] = []
        while not (done := engine.step()):
            agreed.append(engine.stable_prefix(ticket))
        result = done[0].hypotheses[0].tokens
        assert all(result[: len(tokens)] == tokens for tokens in agreed)
        assert agreed == sorted(agreed, key=len)
