"""Segments: a text of just as many tokens as the model is given is one, and one more token is too many."""

import pytest

from dragoman.errors import DecodeError
from dragoman.inference.segments import read_segments
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer(["a b c d e A D ."] * 2, TokenizerSettings(kind="word", minimum_frequency=1))


def test_a_text_of_the_longest_length_is_one_segment(tokenizer: Tokenizer) -> None:
    (just, over) = read_segments(["a b c d", "a b c d e"], tokenizer, 4, "long")
    assert [segment.text for segment in just.all] == ["a b c d"] and not just.flags
    assert len(over.all) > 1 and {"split", "broken"} == set(over.flags)
    assert all(len(segment.ids) <= 4 for segment in over.all)
    read_segments(["a b c d"], tokenizer, 4, "never")
    with pytest.raises(DecodeError, match="text 1 has 5 tokens, but the model is given at most 4"):
        read_segments(["a b c d e"], tokenizer, 4, "never")


def test_a_sentence_of_the_longest_length_is_not_broken(tokenizer: Tokenizer) -> None:
    (found,) = read_segments(["A b c. D e a."], tokenizer, 4, "long")
    assert [segment.text for segment in found.all] == ["A b c.", "D e a."] and "broken" not in found.flags


def test_a_clause_of_the_longest_length_is_not_broken(tokenizer: Tokenizer) -> None:
    (found,) = read_segments(["a b c, d e a"], tokenizer, 4, "long")
    assert [segment.text for segment in found.all] == ["a b c,", "d e a"]
