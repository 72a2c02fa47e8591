"""The tree of a search beside the search in plain loops, and reasons whose figures are those of the tree."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy_search import BeamSearch, Rules, beam_search
from recorded_numbers import check_search
from reference_search import Toy
from small_records import learn, store_translator

from dragoman.decoding.engine import Engine
from dragoman.decoding.hypothesis import Outputs
from dragoman.decoding.request import Request
from dragoman.decoding.steppers import StepScores
from dragoman.explaining.record import Node, SearchRecord
from dragoman.explaining.recording import WIDTHS, Recorder
from dragoman.explaining.search_tree import Candidates, search_tree
from dragoman.inference.translator import Translator
from dragoman.store.folder import load_model
from dragoman.tokenizing.special_tokens import END

SOURCE = [7, 5]
NUMBER = r"(-?\d+\.\d{4})"
WORDS = learn("word").target
"""The vocabulary of all toys."""


class Case(NamedTuple):
    """A search of a toy."""

    size: int
    seed: int
    ties: bool
    limit: int
    width: int
    length_penalty: float

    @property
    def toy(self) -> Toy:
        return Toy(self.size, self.seed, self.ties)

    @property
    def request(self) -> Request:
        return Request(SOURCE, self.limit, self.width, length_penalty=self.length_penalty)


cases = st.tuples(
    st.integers(5, 9),
    st.integers(0, 10**6),
    st.booleans(),
    st.integers(1, 7),
    st.sampled_from(WIDTHS),
    st.sampled_from([0.0, 0.6, 1.0, 3.0]),
).map(lambda drawn: Case(*drawn))


def tree_of(toy: Toy, request: Request) -> SearchRecord:
    """The tree of a search."""
    candidates = Candidates()
    engine = Engine(toy, start=0, end=END, observer=candidates)
    ticket = engine.admit(request)
    (found,) = engine.run()
    return search_tree(candidates.steps[ticket], found.hypotheses[0], request, WORDS, chosen=True)


def plain_search(toy: Toy, request: Request) -> BeamSearch:
    rules = Rules(end=END, limit=request.limit, exponent=request.length_penalty, banned=frozenset())
    return beam_search(toy.model(SOURCE), request.beam_size, rules)


# The tree


@given(case=cases)
def test_a_tree_is_that_of_plain_loops(case: Case) -> None:
    expected = plain_search(case.toy, case.request)
    assume(case.ties or expected.closest > 1e-4)  # ties are of powers of two, so they are exact
    check_search(vars_of(tree_of(case.toy, case.request)), expected, WORDS, ties=case.ties)


def vars_of(search: SearchRecord) -> dict[str, object]:
    """A search as plain values."""
    return {**vars(search), "nodes": [vars(node) for node in search.nodes]}


@given(case=cases)
def test_a_node_continues_a_live_one_and_adds_its_log_probability(case: Case) -> None:
    tree = tree_of(case.toy, case.request)
    for place, node in enumerate(tree.nodes):
        assert (node.parent is None) == (node.step == 1)
        parent = tree.nodes[node.parent] if node.parent is not None else None
        assert parent is None or (parent.status, parent.step) == ("live", node.step - 1)
        assert node.parent is None or node.parent < place
        assert node.total == pytest.approx((parent.total if parent else 0.0) + node.log_prob, abs=1e-5)
        assert (node.status == "ended") <= (node.id == END) and (node.id == END) <= (node.status != "live")
    for step in steps_of(tree):
        assert [node.total for node in step] == sorted((node.total for node in step), reverse=True)
        assert len(step) <= max(1, 2 * case.width) and len(live(step)) <= case.width


@given(case=cases)
def test_the_winner_has_the_largest_score(case: Case) -> None:
    tree = tree_of(case.toy, case.request)
    winner, ended = tree.nodes[tree.winner], [node for node in tree.nodes if node.status == "ended"]
    for node in ended:
        assert node.score == pytest.approx(node.total / ((5 + node.step) / 6) ** case.length_penalty)
    if ended:
        assert winner.score == max(node.score or 0.0 for node in ended) == tree.score
    else:
        assert winner.status == "live" and winner.total == max(node.total for node in steps_of(tree)[-1])
    assert winner.total == tree.total


def steps_of(tree: SearchRecord) -> list[list[Node]]:
    """The candidates of each step, best first."""
    return [[node for node in tree.nodes if node.step == step] for step in range(1, tree.nodes[-1].step + 1)]


def live(step: list[Node]) -> list[Node]:
    return [node for node in step if node.status == "live"]


# Reasons


@given(case=cases)
def test_reasons_name_the_figures_of_the_tree(case: Case) -> None:
    tree = tree_of(case.toy, case.request)
    winning = path_to(tree, tree.winner)
    for place, node in enumerate(tree.nodes):
        if place in winning:
            assert node.reason == ""
        else:
            check_reason(tree, place, case.request)


def path_to(tree: SearchRecord, place: int | None) -> list[int]:
    return [] if place is None else [*path_to(tree, tree.nodes[place].parent), place]


def check_reason(tree: SearchRecord, place: int, request: Request) -> None:
    node = tree.nodes[place]
    step = steps_of(tree)[node.step - 1]
    checks: dict[str, Callable[..., None]] = {
        r"dropped: it ended, but as candidate (\d+) of its step, and only the first (\d+) may end": (
            lambda rank, width: ended_late(node, step, int(rank), int(width))
        ),
        rf"dropped: its total {NUMBER} is {NUMBER} below {NUMBER}, the last of the (\d+) that were kept": (
            lambda own, below, last, width: fell_short(node, step, float(own), float(below), float(last), int(width))
        ),
        rf"ended with the score {NUMBER}, {NUMBER} below the winner's {NUMBER}": (
            lambda own, below, best: scored_less(tree, node, float(own), float(below), float(best))
        ),
        "still live when the search stopped: (.*)": lambda why: was_live(tree, node, why, request),
        "kept, but none of its continuations was kept at the next step": lambda: went_on(tree, place, False),
        "kept; its continuations lost later": lambda: went_on(tree, place, True),
    }
    ((check, found),) = [(check, found) for each, check in checks.items() if (found := re.fullmatch(each, node.reason))]
    check(*found.groups())


def ended_late(node: Node, step: list[Node], rank: int, width: int) -> None:
    assert (node.status, node.id) == ("dropped", END)
    assert step[rank - 1] is node and rank > width


def fell_short(node: Node, step: list[Node], own: float, below: float, last: float, width: int) -> None:
    assert node.status == "dropped" and node.id != END
    assert len(live(step)) == width
    expected = min(each.total for each in live(step))
    assert (own, last, below) == pytest.approx((node.total, expected, expected - node.total), abs=1e-4)
    assert below >= 0.0


def scored_less(tree: SearchRecord, node: Node, own: float, below: float, best: float) -> None:
    assert node.status == "ended" and node.score is not None
    assert (own, best, below) == pytest.approx((node.score, tree.score, tree.score - node.score), abs=1e-4)
    assert below >= 0.0


def went_on(tree: SearchRecord, place: int, kept: bool) -> None:
    assert tree.nodes[place].status == "live" and tree.nodes[place].step < tree.nodes[-1].step
    assert any(node.parent == place and node.status != "dropped" for node in tree.nodes) == kept


def was_live(tree: SearchRecord, node: Node, why: str, request: Request) -> None:
    assert node.status == "live" and node.step == tree.nodes[-1].step
    ended = sum(each.status == "ended" for each in tree.nodes)
    if found := re.fullmatch(r"(\d+) had ended, and a beam of (\d+) looks for no more than \2", why):
        assert (int(found[1]), int(found[2])) == (ended, request.beam_size) and ended >= request.beam_size
    elif found := re.fullmatch(r"(\d+) tokens are the longest that is allowed", why):
        assert int(found[1]) == node.step == request.limit
    else:
        found = re.fullmatch(f"nothing that it could become would pass the winner's score {NUMBER}", why)
        assert found and float(found[1]) == pytest.approx(tree.score, abs=1e-4)
        could_become = node.total / ((5 + request.limit) / 6) ** request.length_penalty
        assert ended and could_become <= tree.score + 1e-6


class Silence:
    """Forbids every token after so many."""

    until = math.inf

    def __init__(self, tokens: int, vocabulary: int) -> None:
        self.tokens, self.vocabulary = tokens, np.arange(vocabulary)

    def __call__(self, step: StepScores, rows: np.ndarray, outputs: Outputs) -> None:
        step.forbid(rows[outputs.lengths[rows] >= self.tokens][:, None], self.vocabulary)


def test_a_search_that_may_write_nothing_more_says_so() -> None:
    tree = tree_of(Toy(6, seed=3), Request(SOURCE, limit=6, beam_size=2, processors=(Silence(2, 6),)))
    reasons = {node.reason for node in live(steps_of(tree)[-1])}
    assert tree.nodes[-1].step == 2
    assert "still live when the search stopped: the rules forbid every further token" in reasons


# The searches of a record


def test_searches_of_every_sentence_find_what_the_translator_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recorder, "_align", lambda *_: None)
    monkeypatch.setattr("dragoman.explaining.recording.find_contributions", lambda *_: None)
    sentences = ["where is the old cat ?", "The dog drinks water .", "I eat bread ."]
    folder = store_translator(tmp_path / "model", preset="modern", seed=3)
    translator = Translator.load(folder, "cpu", "float32")
    parts = Recorder(load_model(folder)).record(" ".join(sentences)).parts
    for width in WIDTHS:
        options = translator.options.model_copy(update={"beam_size": width})
        for part, alone in zip(parts, translator.translate(sentences, options), strict=True):
            (search,) = [search for search in part.searches if search.width == width]
            assert translator.writer.text(translator.tokenizers.target.encode(search.text)) == alone.text
            assert (search.total, search.score) == pytest.approx((alone.log_prob, alone.score), abs=1e-4)
            assert [search.nodes[place].text for place in path_to(search, search.winner)] == [*alone.tokens]
