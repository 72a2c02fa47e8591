"""Constrained search: what stands in an output, and the engine beside the search in plain Python."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_search import Toy, defined, search

from dragoman.decoding.constraints import Constraints, Form, WordEdges
from dragoman.decoding.engine import Engine
from dragoman.decoding.processors import Ban, EachOnce, ForcedPrefix, MinimumLength, NoRepeatedNgram
from dragoman.decoding.request import Request
from dragoman.errors import DecodeError

START, END, SIZE = 0, 1, 8
LETTERS = [5, 6]
"""Tokens that go on with the word before them. Those from 3 to 6 may be gone on with."""


def constrained(*constraints: list[Form]) -> Constraints:
    tokens = np.arange(SIZE)
    return Constraints(constraints, WordEdges(np.isin(tokens, LETTERS), np.isin(tokens, [3, 4, *LETTERS])))


FORMS = st.lists(st.integers(2, SIZE - 1), min_size=1, max_size=3).map(tuple)
CONSTRAINTS = st.lists(st.lists(FORMS, min_size=1, max_size=2), min_size=1, max_size=3)
RULES = [Ban([2]), MinimumLength(3, END), NoRepeatedNgram(2), ForcedPrefix([4, 3]), EachOnce([7], [6, 7], END)]
WISHES = st.fixed_dictionaries(
    {
        "limit": st.integers(1, 12),
        "beam_size": st.integers(2, 6),
        "n_best": st.integers(1, 2),
        "length_penalty": st.sampled_from([0.0, 0.6, 3.0]),
        "processors": st.lists(st.sampled_from(RULES), max_size=2, unique=True).map(tuple),
        "early_stopping": st.booleans(),
    }
)
TOYS = st.builds(Toy, st.just(SIZE), st.integers(0, 10**6), st.booleans())


@given(toy=TOYS, wishes=WISHES, constraints=CONSTRAINTS)
@settings(max_examples=150)
def test_the_engine_finds_what_the_search_in_plain_python_finds_to_the_bit(
    toy: Toy, wishes: dict[str, Any], constraints: list[list[Form]]
) -> None:
    request = Request([5], constraints=constrained(*constraints), **wishes)
    (hypotheses,) = search(Engine(toy, start=START, end=END), [request])
    assert hypotheses == defined(toy, request, END)


@given(toy=TOYS, wishes=st.lists(WISHES, min_size=2, max_size=4), constraints=CONSTRAINTS)
@settings(max_examples=40)
def test_a_request_finds_the_same_beside_others_with_and_without_constraints(
    toy: Toy, wishes: list[dict[str, Any]], constraints: list[list[Form]]
) -> None:
    requests = [
        Request([number], constraints=constrained(*constraints[number:]) if constraints[number:] else None, **wish)
        for number, wish in enumerate(wishes)
    ]
    together = search(Engine(toy, start=START, end=END), requests)
    assert together == [search(Engine(toy, start=START, end=END), [request])[0] for request in requests]


@given(toy=TOYS, wishes=WISHES, constraints=CONSTRAINTS)
@settings(max_examples=80)
def test_what_ends_holds_every_constraint_as_whole_words_without_overlaps(
    toy: Toy, wishes: dict[str, Any], constraints: list[list[Form]]
) -> None:
    request = Request([5], constraints=constrained(*constraints), **wishes)
    for hypothesis in search(Engine(toy, start=START, end=END), [request])[0]:
        if hypothesis.ended:
            assert holds_all(hypothesis.tokens[:-1], constraints)


def holds_all(tokens: Form, constraints: list[list[Form]]) -> bool:
    """Whether the tokens can be cut so that each constraint has a part of its own: every way is tried."""
    if not constraints:
        return True
    first, *others = constraints
    return any(
        is_whole(tokens, place, form) and holds_all((*tokens[:place], -1, *tokens[place + len(form) :]), others)
        for form in first
        for place in range(len(tokens))
        if tokens[place : place + len(form)] == form
    )


def is_whole(tokens: Form, place: int, form: Form) -> bool:
    """Parts that were taken away are words, after which no word goes on."""
    end = place + len(form)
    joined_before = place > 0 and form[0] in LETTERS and tokens[place - 1] in (3, 4, *LETTERS)
    return not joined_before and not (end < len(tokens) and tokens[end] in LETTERS and form[-1] in (3, 4, *LETTERS))


@given(tokens=st.lists(st.integers(2, SIZE - 1), max_size=8).map(tuple), constraints=CONSTRAINTS)
def test_banks_are_those_of_the_outputs_one_token_later(tokens: Form, constraints: list[list[Form]]) -> None:
    rule = constrained(*constraints)
    following = np.arange(SIZE)
    assert rule.banks(tokens, following).tolist() == [
        rule.progress((*tokens, token)).bank for token in following.tolist()
    ]
    progress = rule.progress(tokens)
    assert progress.bank <= rule.size and (progress.met == rule.size) == (not progress.missing)
    assert progress.missing or not rule.wanted(tokens)


@pytest.mark.parametrize(
    ("tokens", "met", "wanted"),
    [
        ((), 0, {3}),
        ((3,), 0, {3, 2}),
        ((3, 2), 2, set()),
        ((2, 3, 2, 7), 2, set()),
        ((3, 2, 5), 2, set()),
        ((3, 7, 2), 0, {3}),
    ],
)
def test_a_form_is_met_once_all_of_it_is_written(tokens: Form, met: int, wanted: set[int]) -> None:
    rule = constrained([(3, 2)])
    assert (rule.progress(tokens).met, set(rule.wanted(tokens))) == (met, wanted)


def test_a_word_that_goes_on_is_another_word() -> None:
    rule = constrained([(4,)])
    assert not rule.progress((4,)).missing and not rule.progress((4, 2)).missing
    assert rule.progress((4, 5)).missing
    assert constrained([(5,)]).progress((4, 5)).missing
    assert not constrained([(5,)]).progress((2, 5)).missing


def test_the_longest_form_counts_and_none_counts_twice() -> None:
    rule = constrained([(2,)], [(2, 7)])
    assert rule.progress((2,)).met == 1
    assert rule.progress((2, 7)).met == 2
    assert not rule.progress((2, 7, 2)).missing
    twice = constrained([(2,)], [(2,)])
    assert twice.progress((2,)).missing and not twice.progress((2, 2)).missing


def test_a_beam_of_one_has_nothing_to_share() -> None:
    with pytest.raises(DecodeError, match="at least 2"):
        Request([5], 9, 1, constraints=constrained([(3,)]))
