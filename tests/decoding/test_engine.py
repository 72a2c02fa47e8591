"""Requests of all kinds that come, go and are cancelled while others are under way: each finds what it finds alone."""

import random
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_search import Toy, defined, search
from small import translator

from dragoman.decoding.engine import Engine, Result
from dragoman.decoding.hypothesis import BeamCandidate, Hypothesis, SearchObserver
from dragoman.decoding.model_stepper import ModelStepper, TensorScores
from dragoman.decoding.processors import Ban, ForcedPrefix, LogitsProcessor, MinimumLength, NoRepeatedNgram, NotBlank
from dragoman.decoding.request import Request
from dragoman.decoding.sampling import Sampling
from dragoman.errors import DecodeError, Interrupted
from dragoman.surface.sentences import is_blank

SIZE, START, END = 6, 0, 1


class Visit(NamedTuple):
    """A request, the step before which it comes, and the one before which it is cancelled."""

    request: Request
    comes: int = 0
    cancelled: int | None = None


WISHES = st.fixed_dictionaries(
    {
        "source": st.lists(st.integers(0, 9), min_size=1, max_size=6),
        "limit": st.integers(1, 9),
        "beam_size": st.integers(1, 4),
        "n_best": st.integers(1, 4),
        "length_penalty": st.sampled_from([0.0, 0.6, 2.0]),
        "banned": st.booleans(),
        "not_blank": st.booleans(),
        "prefix": st.lists(st.integers(3, 5), max_size=3),
        "minimum_length": st.integers(0, 4),
        "no_repeat_ngram": st.none() | st.integers(1, 3),
        "sampling": st.none() | st.builds(Sampling, st.sampled_from([0.5, 1.0, 2.0]), st.none() | st.integers(1, 4)),
        "comes": st.integers(0, 8),
        "cancelled": st.none() | st.integers(0, 12),
        "early_stopping": st.booleans(),
    }
)
"""Settings of a request and its visit, in plain numbers."""


def visit(wishes: dict[str, Any], ban: LogitsProcessor, not_blank: LogitsProcessor) -> Visit:
    """A visit with these wishes; the two rules are shared among all."""
    rules: list[LogitsProcessor] = [ban] * wishes["banned"] + [not_blank] * wishes["not_blank"]
    rules += [MinimumLength(wishes["minimum_length"], END), ForcedPrefix(wishes["prefix"])]
    rules += [NoRepeatedNgram(wishes["no_repeat_ngram"])] if wishes["no_repeat_ngram"] else []
    width = 1 if wishes["sampling"] else wishes["beam_size"]
    request = Request(
        wishes["source"],
        wishes["limit"],
        width,
        min(width, wishes["n_best"]),
        wishes["length_penalty"],
        tuple(rules),
        wishes["sampling"],
        early_stopping=wishes["early_stopping"],
    )
    return Visit(request, wishes["comes"], wishes["cancelled"])


def visited(engine: Engine, guests: Sequence[Visit]) -> list[list[Hypothesis] | None]:
    """What each guest found; None for those that were cancelled in time, or failed."""
    tickets: dict[int, int] = {}
    found: dict[int, list[Hypothesis]] = {}
    step = 0
    while engine.busy or len(tickets) < len(guests):
        for number, guest in enumerate(guests):
            if guest.comes == step:
                tickets[number] = engine.admit(guest.request)
            if guest.cancelled == step and number in tickets:
                engine.cancel(tickets[number])
        found |= {each.ticket: each.outcome for each in engine.step() if isinstance(each.outcome, list)}
        step += 1
    return [found.get(tickets[number]) for number in range(len(guests))]


@given(wishes=st.lists(WISHES, min_size=1, max_size=7), batch_tokens=st.integers(1, 80), ties=st.booleans())
@settings(max_examples=150, deadline=None)
def test_requests_of_any_settings_that_come_and_go_find_what_they_find_alone(
    wishes: list[dict[str, Any]], batch_tokens: int, ties: bool
) -> None:
    ban, not_blank = Ban([2]), NotBlank([b"", b"", b"a", b" ", b"\xc2", b"\xa0"], END, is_blank)
    guests = [visit(each, ban, not_blank) for each in wishes]
    toy = Toy(SIZE, ties=ties)
    together = visited(Engine(toy, start=START, end=END, batch_tokens=batch_tokens), guests)
    assert toy.rows == []
    for guest, found in zip(guests, together, strict=True):
        if found is None:
            assert guest.cancelled is not None
            continue
        alone = Toy(SIZE, ties=ties)
        assert [found] == search(Engine(alone, start=START, end=END), [guest.request])
        if guest.request.sampling is None:
            assert found == defined(alone, guest.request, END)


class Failing(Toy):
    """A toy whose log-probabilities are NaN for some sources, once they have so many tokens."""

    def __init__(self, size: int, fails: Mapping[tuple[int, ...], int]) -> None:
        super().__init__(size)
        self.fails = fails

    def log_probs(self, source: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        found = super().log_probs(source, tokens)
        if len(tokens) == self.fails.get(tuple(source)):
            found[-1] = torch.nan
        return found


@given(
    wishes=st.lists(WISHES, min_size=2, max_size=7),
    fails=st.lists(st.none() | st.integers(0, 4), min_size=7, max_size=7),
    batch_tokens=st.integers(1, 80),
)
@settings(max_examples=100, deadline=None)
def test_a_request_that_fails_disturbs_no_other(
    wishes: list[dict[str, Any]], fails: list[int | None], batch_tokens: int
) -> None:
    ban, not_blank = Ban([2]), NotBlank([b"", b"", b"a", b" ", b"\xc2", b"\xa0"], END, is_blank)
    wishes = [{**each, "source": [*each["source"], number]} for number, each in enumerate(wishes)]
    guests = [visit(each, ban, not_blank) for each in wishes]
    failing = {tuple(each["source"]): at for each, at in zip(wishes, fails, strict=False) if at is not None}
    toy = Failing(SIZE, failing)
    together = visited(Engine(toy, start=START, end=END, batch_tokens=batch_tokens), guests)
    assert toy.rows == []
    for guest, found in zip(guests, together, strict=True):
        if guest.cancelled is None or found is not None:
            (alone,) = visited(Engine(Failing(SIZE, failing), start=START, end=END), [guest])
            assert found == alone


def test_a_request_that_fails_says_why_and_the_next_step_goes_on() -> None:
    engine = Engine(Failing(SIZE, {(7, 1): 2}), start=START, end=END)
    never = (Ban([END]),)
    good, bad = (engine.admit(Request([7, number], 5, processors=never)) for number in (0, 1))
    ended = [found for _ in range(3) for found in engine.step()]
    assert [found.ticket for found in ended] == [bad]
    with pytest.raises(DecodeError, match="outputs are NaN; its weights are damaged"):
        _ = ended[0].hypotheses
    assert engine.active == [good]
    (found,) = engine.run()
    assert [found.hypotheses] == search(Engine(Toy(SIZE), start=START, end=END), [Request([7, 0], 5, processors=never)])


class Full(Toy):
    """A toy that runs out of memory once it has taken in the source (7,), or at a step after `steps`."""

    steps = 1_000

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        for source in sources:
            super().admit([source])
            if tuple(source) == (7,):
                raise MemoryError("no room for a source")

    def advance(self, token: np.ndarray) -> TensorScores:
        self.steps -= 1
        if self.steps < 0:
            raise MemoryError("no room for a step")
        return super().advance(token)


def failures(found: Sequence[Result]) -> list[tuple[int, str]]:
    return [(each.ticket, str(each.outcome)) for each in found if isinstance(each.outcome, Exception)]


def test_a_source_that_the_stepper_cannot_admit_fails_alone_and_the_engine_goes_on() -> None:
    engine = Engine(toy := Full(SIZE), start=START, end=END)
    asked = [Request([number], 5, 1 + number % 3, processors=(Ban([END]),)) for number in range(4)]
    under_way = engine.admit(asked[0])
    engine.step()
    tickets = [under_way, engine.admit(asked[1]), bad := engine.admit(Request([7], 5)), *map(engine.admit, asked[2:])]
    found = list(engine.run())
    assert failures(found) == [(bad, "no room for a source")]
    outcomes = {each.ticket: each.outcome for each in found}
    expected = search(Engine(Toy(SIZE), start=START, end=END), asked)
    assert [outcomes[ticket] for ticket in tickets if ticket != bad] == expected
    assert not engine.busy and toy.rows == []


@pytest.mark.parametrize("error", [MemoryError, torch.OutOfMemoryError])
def test_tensors_of_a_failed_batch_are_freed_before_each_request_is_tried_alone(error: type[Exception]) -> None:
    failed: list[weakref.ref[torch.Tensor]] = []
    freed: list[bool] = []

    class Tight(Toy):
        def admit(self, sources: Sequence[Sequence[int]]) -> None:
            if len(sources) > 1:
                activations = torch.zeros(len(sources))
                failed.append(weakref.ref(activations))
                raise error("out of memory")
            freed.append(failed[0]() is None)
            super().admit(sources)

        def select(self, row: np.ndarray) -> None:
            freed.append(failed[0]() is None)
            super().select(row)

    asked = [Request([number], 5) for number in range(3)]
    tight, plain = (Engine(toy, start=START, end=END) for toy in (Tight(SIZE), Toy(SIZE)))
    assert search(tight, asked) == search(plain, asked)
    assert len(failed) == 1 and len(freed) >= 4 and all(freed)


def test_an_error_at_a_step_ends_those_under_way_and_the_waiting_ones_enter() -> None:
    engine = Engine(toy := Full(SIZE), start=START, end=END, batch_tokens=2)
    asked = [Request([number], 5, processors=(Ban([END]),)) for number in range(3)]
    tickets = [engine.admit(request) for request in asked]
    assert (engine.step(), engine.active) == ([], tickets[:2])
    toy.steps = 0
    assert failures(engine.step()) == [(ticket, "no room for a step") for ticket in tickets[:2]]
    assert engine.active == [] and toy.rows == []
    toy.steps = 1_000
    (found,) = engine.run()
    assert (found.ticket, [found.hypotheses]) == (
        tickets[2],
        search(Engine(Toy(SIZE), start=START, end=END), asked[2:]),
    )


@pytest.mark.parametrize("work", ["admit", "advance"])
def test_a_signal_to_stop_is_no_failure_of_a_request(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise Interrupted("stopped")

    engine = Engine(toy := Toy(SIZE), start=START, end=END)
    for number in range(3):
        engine.admit(Request([number], 5))
    with monkeypatch.context() as patch:
        patch.setattr(toy, work, stopped)
        with pytest.raises(Interrupted):
            engine.step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_a_model_translates_every_request_as_alone(preset: str, dtype: torch.dtype) -> None:
    model = translator(preset=preset, dtype=dtype)
    with torch.no_grad():
        model.output.mul_(4)  # fresh weights find all tokens alike; these have opinions
    guests = random_visits(24, model.output.size(0))
    together = visited(Engine(ModelStepper(model.eval()), start=2, end=3, batch_tokens=100), guests)
    assert sum(found is None for found in together) in range(1, 12)
    for guest, found in zip(guests, together, strict=True):
        if found is not None:
            (alone,) = search(Engine(ModelStepper(model), start=2, end=3), [guest.request])
            assert [h.tokens for h in found] == [h.tokens for h in alone]
            close = 1e-4 if dtype == torch.float32 else 1e-6  # log-probabilities are handed over as float32
            assert [h.total for h in found] == pytest.approx([h.total for h in alone], rel=close, abs=close)


def random_visits(count: int, vocabulary: int) -> list[Visit]:
    dice = random.Random(0)

    def ids(least: int, most: int) -> list[int]:
        return [dice.randrange(4, vocabulary) for _ in range(dice.randint(least, most))]

    guests = []
    for number in range(count):
        width = dice.choice([1, 1, 2, 4])
        rules = (Ban([0, 1, 2]), *([ForcedPrefix(ids(1, 3))] if number % 3 else [MinimumLength(4, 3)]))
        request = Request([2, *ids(1, 9), 3], dice.randint(5, 15), width, dice.randint(1, width), 0.6, rules)
        guests.append(Visit(request, dice.randint(0, 12), None if number % 4 else 3 + number // 2))
    return guests


def test_a_cancelled_request_frees_its_rows_at_once() -> None:
    toy = Toy(SIZE)
    engine = Engine(toy, start=START, end=END, batch_tokens=40)
    never = (Ban([END]),)
    first, second, waiting = (
        engine.admit(Request([7, length], 30, width, processors=never)) for length, width in ((3, 4), (4, 2), (5, 16))
    )
    engine.step()
    assert (len(toy.rows), engine.active) == (6, [second, first])
    engine.cancel(first)
    assert (len(toy.rows), engine.active) == (2, [second])
    engine.cancel(waiting)
    engine.cancel(first)
    assert [found.ticket for found in engine.run()] == [second]
    assert not engine.busy


def test_an_idle_engine_steps_without_a_model() -> None:
    engine = Engine(Toy(SIZE), start=START, end=END)
    assert (engine.step(), engine.busy) == ([], False)


def test_the_longest_of_those_that_come_together_enters_first_behind_all_that_came_before() -> None:
    engine = Engine(Toy(SIZE), start=START, end=END, batch_tokens=1)
    tickets = [engine.admit(Request([7] * length, 3)) for length in (2, 5)]
    order = [found.ticket for found in engine.step()]
    tickets += [engine.admit(Request([7] * length, 3)) for length in (4, 9)]
    order += [found.ticket for found in engine.run()]
    assert order == [tickets[number] for number in (1, 0, 3, 2)]


def test_rows_count_for_a_least_number_of_tokens() -> None:
    toy = Toy(SIZE)
    requests = [Request([number], 4) for number in range(9)]
    results = search(Engine(toy, start=START, end=END, batch_tokens=60, row_tokens=20), requests)
    assert toy.most_rows == 3
    assert results == search(Engine(Toy(SIZE), start=START, end=END), requests)


class Watching:
    """An observer that remembers everything."""

    def __init__(self) -> None:
        self.steps: dict[int, list[list[BeamCandidate]]] = {}
        self.sites: Counter[str] = Counter()

    def tensor(self, site: str, value: torch.Tensor) -> None:
        self.sites[site] += 1

    def candidates(self, ticket: int, candidates: Sequence[BeamCandidate]) -> None:
        self.steps.setdefault(ticket, []).append(list(candidates))


@pytest.mark.parametrize("seed", range(10))
def test_an_observer_sees_every_candidate_and_its_fate_and_changes_nothing(seed: int) -> None:
    requests = [Request([seed, width], 7, width, width, 0.6, (Ban([2]),)) for width in (1, 2, 3)]
    watching = Watching()
    assert isinstance(watching, SearchObserver)
    found = search(Engine(Toy(SIZE, seed), start=START, end=END, observer=watching), requests)
    assert found == search(Engine(Toy(SIZE, seed), start=START, end=END), requests)
    for ticket, (request, results) in enumerate(zip(requests, found, strict=True)):
        expected = plain_candidates(Toy(SIZE, seed), request, steps=len(watching.steps[ticket]))
        seen = [[(each.hypothesis.tokens, each.status) for each in step] for step in watching.steps[ticket]]
        assert seen == expected
        kept = [each.hypothesis for step in watching.steps[ticket] for each in step if each.status != "dropped"]
        assert set(results) <= set(kept)


def plain_candidates(toy: Toy, request: Request, steps: int) -> list[list[tuple[tuple[int, ...], str]]]:
    """The candidates of each step and their fates, by sorting all continuations; token 2 is banned."""
    width, model = request.beam_size, toy.model(request.source)
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    found: list[list[tuple[tuple[int, ...], str]]] = []
    for _ in range(steps):
        everything: list[Any] = [
            (-(total + log_prob), parent, (*tokens, token))
            for parent, (total, tokens) in enumerate(live)
            for token, log_prob in enumerate(model(tokens))
            if token != 2
        ]
        best = sorted(everything)[: 1 if width == 1 else 2 * width]
        live, fates = [], []
        for rank, (cost, _, tokens) in enumerate(best):
            if len(live) == width or (tokens[-1] == END and rank >= width):
                fates.append((tokens, "dropped"))
            elif tokens[-1] == END:
                fates.append((tokens, "ended"))
            else:
                fates.append((tokens, "live"))
                live.append((-cost, tokens))
        found.append(fates)
    return found


def test_one_observer_watches_the_model_and_the_search() -> None:
    watching, model = Watching(), translator(dtype=torch.float32).eval()
    engine = Engine(ModelStepper(model, watching), start=2, end=3, observer=watching)
    requests = [guest.request for guest in random_visits(3, model.output.size(0))]
    found = search(engine, requests)
    assert [[h.tokens for h in each] for each in found] == [
        [h.tokens for h in each] for each in search(Engine(ModelStepper(model), start=2, end=3), requests)
    ]
    steps = max(map(len, watching.steps.values()))
    assert set(watching.steps) == {0, 1, 2}
    assert watching.sites["encoder.0.self_attention.weights"] == 1
    assert watching.sites["decoder.0.cross_attention.weights"] == steps
