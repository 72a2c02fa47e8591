"""Rules alone, against plain loops, and inside a search."""

import itertools
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference_search import Toy, beam_search

from dragoman.decoding import Search, SearchOptions
from dragoman.decoding.rules import Ban, ForcedPrefix, MinimumLength, NoRepeatedNgram, NotBlank, Rule, written

SIZE, START, END = 6, 0, 1
CPU = torch.device("cpu")
Rows = st.lists(st.lists(st.integers(2, SIZE - 1), max_size=7), min_size=1, max_size=4)


def allowed(rule: Rule, rows: Sequence[Sequence[int]]) -> list[set[int]]:
    """What the rule leaves to rows that wrote this; the log-probabilities of what it leaves must not change."""
    longest = max(map(len, rows)) + 1
    history = torch.tensor([[-1] * (longest - len(row) - 1) + [START, *row] for row in rows])
    before = torch.randn(len(rows), SIZE)
    after = before.clone()
    rule(after, history, torch.arange(len(rows)))
    left = [{i for i in range(SIZE) if row[i] > -torch.inf} for row in after.tolist()]
    for old, new, kept in zip(before.tolist(), after.tolist(), left, strict=True):
        assert all(old[i] == new[i] for i in kept)
    return left


def test_every_rule_is_a_rule() -> None:
    not_blank = NotBlank([True], [START, 3], END, SIZE, CPU)
    for rule in (Ban([2], CPU), MinimumLength(3, END), NoRepeatedNgram(2), ForcedPrefix([[3]], CPU), not_blank):
        assert isinstance(rule, Rule)


def test_written_tokens_are_counted_without_the_start() -> None:
    assert written(torch.tensor([[-1, -1, 0], [0, 4, 5]])).tolist() == [0, 2]


@given(rows=Rows)
def test_banned_tokens_are_never_left(rows: list[list[int]]) -> None:
    assert allowed(Ban([2, 4], CPU), rows) == [{0, 1, 3, 5}] * len(rows)


@given(rows=Rows, length=st.integers(1, 6))
def test_no_end_before_the_minimum_length(rows: list[list[int]], length: int) -> None:
    assert [END in left for left in allowed(MinimumLength(length, END), rows)] == [len(row) >= length for row in rows]


@given(rows=Rows, data=st.data())
def test_no_end_and_one_blank_at_most_before_what_can_be_seen(rows: list[list[int]], data: st.DataObject) -> None:
    blank = {START, 3, 4}
    spoken = [data.draw(st.booleans()) for _ in rows]
    found = allowed(NotBlank(spoken, sorted(blank), END, SIZE, CPU), rows)
    for row, speaks, left in zip(rows, spoken, found, strict=True):
        if not speaks or set(row) - blank or len(row) > 1:  # it lets no one write two blank tokens first
            assert left == set(range(SIZE))
        else:
            assert left == set(range(SIZE)) - {END} - (blank if row else set())


@given(rows=Rows, size=st.integers(1, 4))
def test_no_run_of_tokens_comes_twice(rows: list[list[int]], size: int) -> None:
    for row, left in zip(rows, allowed(NoRepeatedNgram(size), rows), strict=True):
        written_runs = {tuple(row[i : i + size]) for i in range(len(row) - size + 1)}
        for token in range(1, SIZE):
            run = tuple([*row, token][-size:])
            assert (token in left) == (len(run) < size or run not in written_runs)


@given(rows=Rows, data=st.data())
def test_a_prefix_leaves_one_token_until_it_is_written(rows: list[list[int]], data: st.DataObject) -> None:
    prefixes = [data.draw(st.lists(st.integers(2, SIZE - 1), max_size=4)) for _ in rows]
    for row, prefix, left in zip(rows, prefixes, allowed(ForcedPrefix(prefixes, CPU), rows), strict=True):
        assert left == ({prefix[len(row)]} if len(row) < len(prefix) else set(range(SIZE)))


@pytest.mark.parametrize("width", [1, 3])
def test_a_search_with_rules_is_the_search_of_a_model_that_obeys_them(width: int) -> None:
    sources = [[7] * length for length in (2, 5, 3, 1)]
    prefixes = [[4, 2], [], [3], []]
    spoken = [not prefix for prefix in prefixes]
    not_blank = NotBlank(spoken, [START, 4], END, SIZE, CPU)
    rules = [Ban([0], CPU), not_blank, MinimumLength(3, END), NoRepeatedNgram(2), ForcedPrefix(prefixes, CPU)]
    options = SearchOptions(beam_size=width, batch_tokens=width * 10)
    toy = Toy(SIZE)
    results = dict(Search(toy, sources, [8] * 4, start=START, end=END, options=options, rules=rules).run())

    for number, source in enumerate(sources):
        model, prefix = toy.model(source), prefixes[number]

        def obedient(tokens: tuple[int, ...], model=model, prefix=prefix, speaks=spoken[number]) -> list[float]:
            log_probs = model(tokens)
            pairs = set(itertools.pairwise(tokens))
            for token in range(SIZE):
                if (
                    token == 0
                    or (token == END and len(tokens) < 3)
                    or (tokens and (tokens[-1], token) in pairs)
                    or (len(tokens) < len(prefix) and token != prefix[len(tokens)])
                    or (speaks and token == 4 and tokens == (4,))
                ):
                    log_probs[token] = -torch.inf
            return log_probs

        ((expected, total),) = beam_search(obedient, width, 1, 8, 0.6, END)
        (hypothesis,) = results[number]
        assert hypothesis.tokens == expected
        assert hypothesis.total == pytest.approx(total, abs=1e-5)
