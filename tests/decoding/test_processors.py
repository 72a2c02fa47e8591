"""Rules by themselves, against plain loops, and inside a search."""

import codecs
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import small_translators
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference_search import Toy, beam_search, search

from dragoman.decoding.engine import Engine
from dragoman.decoding.hypothesis import Outputs, length_penalty
from dragoman.decoding.model_stepper import TensorScores
from dragoman.decoding.processors import (
    Ban,
    EachOnce,
    ForcedPrefix,
    LogitsProcessor,
    MinimumLength,
    NoRepeatedNgram,
    NotBlank,
)
from dragoman.decoding.request import Request
from dragoman.inference.translator import Translator
from dragoman.surface.segment import Segment
from dragoman.surface.sentences import is_blank

SIZE, START, END = 6, 0, 1
SPELLINGS = [b"", b"", b"a", b"b", b" ", b"c"]
Rows = st.lists(st.lists(st.integers(2, SIZE - 1), max_size=7), min_size=1, max_size=4)


def allowed(rule: LogitsProcessor, rows: Sequence[Sequence[int]]) -> list[set[int]]:
    """What the rule leaves to rows that wrote this. It must not change what it leaves, nor rows that do not obey it."""
    everyone = [[3, 3, 3], *rows, [3, 3, 3]]
    outputs = written_by(everyone)
    before = torch.randn(len(everyone), SIZE)
    after = before.clone()
    rule(TensorScores(after), np.arange(1, len(rows) + 1), outputs)
    assert torch.equal(after[[0, -1]], before[[0, -1]])
    if not any(len(row) < rule.until for row in rows):
        assert torch.equal(after, before), "the rule said that it has nothing more to say"
    before, after = before[1:-1], after[1:-1]
    left = [{i for i in range(SIZE) if row[i] > -torch.inf} for row in after.tolist()]
    for old, new, kept in zip(before.tolist(), after.tolist(), left, strict=True):
        assert all(old[i] == new[i] for i in kept)
    return left


def written_by(rows: Sequence[Sequence[int]]) -> Outputs:
    """Outputs whose rows entered one after the other, so that all have written this by now, and what they wrote before
    they were selected is still there.
    """
    outputs = Outputs()
    longest = max(map(len, rows))
    for step in range(longest):
        entering = sum(longest - len(row) == step for row in rows)
        outputs.add_rows([START] * entering)
        late = sorted(rows, key=len, reverse=True)[: len(outputs)]
        token = np.array([row[step - (longest - len(row))] for row in late])
        outputs.append(token, np.zeros(len(outputs), np.float32), np.zeros(len(outputs)))
    outputs.add_rows([START] * (len(rows) - len(outputs)))
    order = sorted(range(len(rows)), key=lambda number: -len(rows[number]))
    outputs.select(np.argsort(order))
    assert [outputs.hypothesis(number).tokens for number in range(len(rows))] == [tuple(row) for row in rows]
    return outputs


def test_every_rule_is_a_rule() -> None:
    not_blank = NotBlank(SPELLINGS, END, is_blank)
    for rule in (Ban([2]), MinimumLength(3, END), NoRepeatedNgram(2), ForcedPrefix([3]), not_blank):
        assert isinstance(rule, LogitsProcessor)


@given(rows=Rows)
def test_banned_tokens_are_never_left(rows: list[list[int]]) -> None:
    assert allowed(Ban([2, 4]), rows) == [{0, 1, 3, 5}] * len(rows)


@given(rows=Rows, length=st.integers(1, 6))
def test_no_end_before_the_minimum_length(rows: list[list[int]], length: int) -> None:
    assert [END in left for left in allowed(MinimumLength(length, END), rows)] == [len(row) >= length for row in rows]


BLANKS = [" ", "\t", "\u00a0", "\u3000", "\u0085", "\u2028", "\u200b", "\ufeff", "\u00ad", "\U000e0041", "\u3164"]
BYTES = sorted({bytes([value]) for blank in BLANKS for value in blank.encode()})
PIECES = [*BYTES, b"a", "é".encode(), b" a", b" \xc2", b"\xa0b", "\u00a0\u3000".encode(), b"\x80\xe3", b""]


@given(draw=st.data())
def test_the_first_characters_of_an_output_are_not_all_blank(draw: st.DataObject) -> None:
    spellings = [b"", b"", *PIECES]  # of the start and of the end
    rule = NotBlank(spellings, END, is_blank)
    tokens: list[int] = []
    for length in range(rule.until + 1):
        step = TensorScores(torch.zeros(3, len(spellings)))
        rule(step, np.array([1]), written_by([[], tokens, [2] * 9]))
        left = {token for token, value in enumerate(step.log_prob[1].tolist()) if value == 0}
        assert not step.log_prob[[0, 2]].any()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")  # which waits for the other bytes of a character
        text = decoder.decode(b"".join(spellings[token] for token in tokens))
        assert (END in left) == (not is_blank(text))
        assert {spellings.index(b"a"), spellings.index("é".encode())} <= left, "a visible token may always follow"
        if not is_blank(text):
            assert left == {*range(len(spellings))}
        assert length < rule.until or END in left
        tokens.append(draw.draw(st.sampled_from(sorted(left - {END}))))


@given(rows=Rows, size=st.integers(1, 4))
def test_no_run_of_tokens_comes_twice(rows: list[list[int]], size: int) -> None:
    for row, left in zip(rows, allowed(NoRepeatedNgram(size), rows), strict=True):
        written_runs = {tuple(row[i : i + size]) for i in range(len(row) - size + 1)}
        for token in range(1, SIZE):
            run = tuple([*row, token][-size:])
            assert (token in left) == (len(run) < size or run not in written_runs)


@given(rows=Rows, prefix=st.lists(st.integers(2, SIZE - 1), max_size=4), not_next=st.sets(st.integers(2, SIZE - 1)))
def test_a_prefix_leaves_one_token_until_it_is_written_and_not_all_after_it(
    rows: list[list[int]], prefix: list[int], not_next: set[int]
) -> None:
    for row, left in zip(rows, allowed(ForcedPrefix(prefix, [*not_next]), rows), strict=True):
        after = set(range(SIZE)) - (not_next if len(row) == len(prefix) else set())
        assert left == ({prefix[len(row)]} if len(row) < len(prefix) else after)


@given(rows=Rows, own=st.permutations([2, 3, 4]), count=st.integers(1, 3))
def test_each_placeholder_comes_once_and_the_end_waits_unless_it_is_likeliest(
    rows: list[list[int]], own: list[int], count: int
) -> None:
    own, kind = own[:count], {2, 3, 4}
    for row, left in zip(rows, allowed(EachOnce(own, sorted(kind), END), rows), strict=True):
        missing = {token for token in own if token not in row}
        usual = {*range(SIZE)} - kind | missing
        assert left == usual or (missing and left == usual - {END})


@pytest.mark.parametrize("width", [1, 3])
def test_a_search_writes_no_placeholder_twice(width: int) -> None:
    kept = EachOnce([3, 4], [2, 3, 4], END)
    requests = [Request([7] * length, 12, width, 1, 0.6, (kept,)) for length in range(1, 9)]
    results = search(Engine(Toy(SIZE), start=START, end=END, batch_tokens=width * 10), requests)
    counts = [[result[0].tokens.count(token) for token in (2, 3, 4)] for result in results]
    assert all(count[0] == 0 and max(count) <= 1 for count in counts)
    assert [0, 1, 1] in counts


@pytest.mark.parametrize("width", [1, 3])
def test_a_search_with_rules_is_the_search_of_a_model_that_obeys_them(width: int) -> None:
    sources = [[7] * length for length in (2, 5, 3, 1)]
    prefixes = [[4, 2], [], [3], []]
    everywhere = (Ban([0]), MinimumLength(3, END), NoRepeatedNgram(2))
    not_blank = NotBlank(SPELLINGS, END, is_blank)
    requests = [
        Request(source, 8, width, 1, 0.6, (*everywhere, ForcedPrefix(prefix) if prefix else not_blank))
        for source, prefix in zip(sources, prefixes, strict=True)
    ]
    toy = Toy(SIZE)
    results = search(Engine(toy, start=START, end=END, batch_tokens=width * 10), requests)

    for number, source in enumerate(sources):
        model, prefix = toy.model(source), prefixes[number]

        def obedient(tokens: tuple[int, ...], model=model, prefix=prefix, speaks=not prefixes[number]) -> list[float]:
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


@pytest.mark.parametrize("native", [False, True], ids=["torch", "compiled"])
def test_a_certain_prefix_costs_nothing_in_either_decoder(native: bool) -> None:
    stored = small_translators.stored("bpe")
    translator = Translator(stored, "cpu", "float32", native=native)
    options = small_translators.asked(beam_size=3)
    (segment,) = translator.read(["the red cat"], options)[0].translated
    free, forced = (
        translator.search.hypotheses(builder.of([Segment("", "", parts=(segment,))], options)[0], options)[0][0]
        for builder in (translator.requests, translator.requests.beginning_with([300]))
    )
    (again,) = translator.search.score([translator.framing.source(segment.ids)], [forced.tokens], options)
    assert forced.tokens[0] == 300 != free.tokens[0] and forced.log_probs[0] == 0
    assert again[0] < -1 and forced.log_probs[1:] == pytest.approx(again[1:], abs=1e-4)
    assert forced.score(0.6) == pytest.approx(sum(forced.log_probs) / length_penalty(len(forced.tokens), 0.6), rel=1e-5)


def test_a_certain_token_is_written_although_it_is_banned_and_only_once() -> None:
    rules, outputs = (Ban([3]), ForcedPrefix([3, 2], certain=1)), written_by([[], [3], [3, 2]])
    log_prob = torch.full((3, SIZE), -1.0)
    for rule in rules:
        rule(TensorScores(log_prob), np.arange(3), outputs)
    assert log_prob[0, 3] == 0 and log_prob[0].sum() == -torch.inf
    assert [row.isfinite().nonzero().flatten().tolist() for row in log_prob] == [[3], [2], [0, 1, 2, 4, 5]]
