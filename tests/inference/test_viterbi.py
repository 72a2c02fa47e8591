"""The best labels of a sentence: never invalid, and the very best among the valid ones."""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inference.labels import Transitions, best_labels
from dragoman.tokenizing.labels import Labels

BIO = Labels(task="tag", names=("O", "B-person", "I-person", "I-place", "B-place"))
PARTS = Labels(task="tag", names=("NOUN", "VERB", "O"))


def is_valid(names: list[str]) -> bool:
    """Said again, plainly: an I continues an entity of its type."""
    before = ["O", *names][:-1]
    return all(
        not name.startswith("I-") or last in (f"B-{name[2:]}", name) for last, name in zip(before, names, strict=True)
    )


def drawn(words: int, seed: int, sharpness: float = 1.0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return (sharpness * torch.randn(words, BIO.size, generator=random)).log_softmax(1)


def of_best(log_probs: torch.Tensor) -> list[int]:
    return best_labels(log_probs, Transitions.of(BIO))


def total(log_probs: torch.Tensor, ids: list[int] | tuple[int, ...]) -> float:
    return float(log_probs.double()[range(len(ids)), list(ids)].sum())


@given(words=st.integers(0, 30), seed=st.integers(0, 10_000), sharpness=st.sampled_from([0.0, 1.0, 300.0]))
def test_no_sequence_is_invalid(words, seed, sharpness):
    ids = of_best(drawn(words, seed, sharpness))
    assert len(ids) == words
    assert is_valid([BIO.names[id] for id in ids])


@given(words=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_the_sequence_is_the_best_of_all_valid_ones(words, seed):
    log_probs = drawn(words, seed)
    valid = [ids for ids in product(range(BIO.size), repeat=words) if is_valid([BIO.names[id] for id in ids])]
    assert total(log_probs, of_best(log_probs)) == pytest.approx(max(total(log_probs, ids) for ids in valid), rel=1e-12)


@given(words=st.integers(1, 6), seed=st.integers(0, 10_000))
def test_where_the_best_labels_of_the_words_are_valid_they_are_the_answer(words, seed):
    log_probs = drawn(words, seed)
    plain = log_probs.argmax(1).tolist()
    assert (of_best(log_probs) == plain) == is_valid([BIO.names[id] for id in plain])


def test_an_inside_label_that_begins_a_sentence_is_not_repaired_but_searched():
    log_probs = torch.tensor([[0.3, 0.2, 0.5, 0.0, 0.0], [0.1, 0.0, 0.9, 0.0, 0.0]]).log()
    assert [BIO.names[id] for id in of_best(log_probs)] == ["B-person", "I-person"]


def test_impossible_labels_are_chosen_before_invalid_ones():
    log_probs = torch.full((3, BIO.size), -torch.inf)
    log_probs[:, BIO.names.index("I-place")] = 0.0
    assert [BIO.names[id] for id in of_best(log_probs)] == ["B-place", "I-place", "I-place"]


def test_labels_that_are_not_bio_may_follow_in_any_order():
    assert Transitions.of(PARTS) is None
    assert best_labels(torch.eye(3)[[2, 0, 1]], None) == [2, 0, 1]
