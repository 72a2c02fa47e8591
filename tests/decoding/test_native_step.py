"""A compiled step: the best tokens in order, what is forbidden, and a search that takes its usual steps in C++."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from compiler import needs_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_search import Toy, defined, search

from dragoman.decoding.compiled_stepper import LogitScores
from dragoman.decoding.engine import Engine
from dragoman.decoding.hypothesis import Outputs
from dragoman.decoding.model_stepper import TensorScores
from dragoman.decoding.processors import Ban, ForcedPrefix, MinimumLength, NoRepeatedNgram
from dragoman.decoding.request import Request
from dragoman.decoding.steppers import StepScores
from dragoman.errors import DecodeError

pytestmark = needs_compiler
START, END = 0, 1


def random_logits(seed: int, rows: int, width: int) -> np.ndarray:
    """Many ties, and some tokens that are forbidden."""
    dice = random.Random(seed)
    few = [-np.inf, *(dice.choice([-2.0, -1.0, 0.0, 0.5, 1.0]) for _ in range(3)), dice.random()]
    return np.array([dice.choices(few, k=width) for _ in range(rows)], np.float32)


@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 3),
    width=st.integers(1, 300),
    count=st.integers(1, 20) | st.just(99),
)
@settings(max_examples=200)
def test_the_best_tokens_are_in_order_and_the_lower_id_is_first_among_equals(
    seed: int, rows: int, width: int, count: int
) -> None:
    logits, norms = random_logits(seed, rows, width), np.arange(rows, dtype=np.float32)
    step = LogitScores(logits, norms)
    best, log_probs = step.best(count), step.log_probs()
    for row in range(rows):
        order = sorted(range(width), key=lambda token: (-logits[row, token], token))[:count]
        assert best.token[row].tolist() == order
        assert best.log_prob[row].tolist() == log_probs[row, order].tolist()


def test_what_is_forbidden_is_that_of_a_plain_step() -> None:
    logits = np.random.default_rng(0).standard_normal((4, 7)).astype(np.float32)
    plain, compiled = TensorScores(torch.tensor(logits)), LogitScores(logits.copy(), np.zeros(4, np.float32))
    assert isinstance(compiled, StepScores)
    for step in (plain, compiled):
        step.forbid(np.array([[0], [2]]), np.array([1, 5]))
        step.forbid(np.array([3]), np.array(6))
        step.forbid(np.array([], np.int64), np.array(2))
        step.allow_only(np.array([1, 3]), np.array([4, 0]))
    assert np.array_equal(plain.log_probs(), compiled.log_probs())
    assert np.isneginf(compiled.log_probs()).sum(1).tolist() == [2, 6, 2, 6]
    for count in (1, 3, 7):
        assert all(map(np.array_equal, plain.best(count), compiled.best(count)))


class Counted(LogitScores):
    """A compiled step that counts how often it was taken in one call."""

    taken = 0

    def write_next(self, outputs: Outputs, limits: np.ndarray, end: int) -> np.ndarray | None:
        parents = super().write_next(outputs, limits, end)
        Counted.taken += parents is not None
        return parents


class CompiledToy(Toy):
    """A toy whose steps are compiled ones."""

    def advance(self, token: np.ndarray) -> Counted:
        log_prob = super().advance(token).log_prob.numpy().astype(np.float32)
        return Counted(log_prob, log_prob.sum(1) * 0)  # NaN where a log-probability is


RULES = [Ban([2]), Ban([END]), Ban([END, 2, 3, 4]), MinimumLength(3, END), NoRepeatedNgram(2), ForcedPrefix([4, 3])]
WISHES = st.fixed_dictionaries(
    {
        "source": st.lists(st.integers(0, 9), min_size=1, max_size=4),
        "limit": st.integers(1, 40),
        "beam_size": st.integers(1, 5),
        "n_best": st.integers(1, 5),
        "length_penalty": st.sampled_from([0.0, 0.6, 3.0]),
        "processors": st.lists(st.sampled_from(RULES), max_size=3, unique=True).map(tuple),
        "early_stopping": st.booleans(),
    }
)


def wished(wishes: dict[str, Any]) -> Request:
    return Request(**{**wishes, "n_best": min(wishes["n_best"], wishes["beam_size"])})


@given(
    wishes=st.lists(WISHES, min_size=1, max_size=5),
    alike=st.booleans(),
    seed=st.integers(0, 10**6),
    ties=st.booleans(),
    batch_tokens=st.integers(1, 60),
)
@settings(max_examples=60)
def test_a_search_whose_usual_steps_are_compiled_finds_what_the_plain_one_finds_to_the_bit(
    wishes: list[dict[str, Any]], alike: bool, seed: int, ties: bool, batch_tokens: int
) -> None:
    if alike:  # usual steps are those of requests of one kind
        wishes = [{**each, "beam_size": wishes[0]["beam_size"]} for each in wishes]
    toy, requests = CompiledToy(7, seed, ties), [wished(each) for each in wishes]
    found = search(Engine(toy, start=START, end=END, batch_tokens=batch_tokens), requests)
    assert found == [defined(toy, request, END) for request in requests]


@pytest.mark.parametrize("width", [1, 2, 4])
def test_a_search_takes_its_usual_steps_in_one_call(width: int) -> None:
    Counted.taken = 0
    toy, requests = CompiledToy(9), [Request([number], 80, width, processors=(Ban([END]),)) for number in range(3)]
    found = search(Engine(toy, start=START, end=END), requests)
    assert found == [defined(toy, request, END) for request in requests]
    assert Counted.taken == 80 - 1, "the last step ends them all"


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("at", [0, 3])
def test_nan_in_the_midst_of_usual_steps_fails_its_request_alone(width: int, at: int) -> None:
    class Cracked(CompiledToy):
        def log_probs(self, source: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
            log_probs = super().log_probs(source, tokens)
            if tuple(source) == (1,) and len(tokens) == at:
                log_probs[-1] = torch.nan
            return log_probs

    engine = Engine(Cracked(9), start=START, end=END)
    requests = [Request([number], 9, width, processors=(Ban([END]),)) for number in range(3)]
    tickets = [engine.admit(request) for request in requests]
    found = {each.ticket: each for each in engine.run()}
    assert [found[tickets[n]].hypotheses for n in (0, 2)] == [defined(Toy(9), requests[n], END) for n in (0, 2)]
    with pytest.raises(DecodeError, match="NaN"):
        _ = found[tickets[1]].hypotheses
