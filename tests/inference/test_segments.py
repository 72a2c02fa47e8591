"""Segments: a text of just as many tokens as the model is given is one, and one more token is too many."""

from collections.abc import Sequence

import pytest

from dragoman.errors import DecodeError
from dragoman.surface.conventions import UNKNOWN_CONVENTIONS
from dragoman.surface.pipeline import Surface
from dragoman.surface.segment import Context, Segment, Split
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer(["a b c d e A D ."] * 2, TokenizerSettings(kind="word", minimum_frequency=1))


def read(texts: Sequence[str], tokenizer: Tokenizer, longest: int, split: Split) -> list[Segment]:
    surface = Surface(UNKNOWN_CONVENTIONS, ("en", "it"), tokenizer.encode_batch)
    return surface.read(texts, Context(longest, split, is_raw=True))


def test_a_text_of_the_longest_length_is_one_segment(tokenizer: Tokenizer) -> None:
    (just, over) = read(["a b c d", "a b c d e"], tokenizer, 4, "long")
    assert [segment.typed for segment in just.parts] == ["a b c d"] and not just.flags
    assert len(over.parts) > 1 and {"split", "broken"} == set(over.flags)
    assert all(len(segment.ids) <= 4 for segment in over.parts)
    read(["a b c d"], tokenizer, 4, "never")
    with pytest.raises(DecodeError, match="text 1 has 5 tokens, but the model is given at most 4"):
        read(["a b c d e"], tokenizer, 4, "never")


class Blind(Tokenizer):
    """A tokenizer that finds no token in what holds an x."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [[] if "x" in text else ids for text, ids in zip(texts, super().encode_batch(texts), strict=True)]


def test_text_in_which_the_tokenizer_finds_nothing_is_flagged(tokenizer: Tokenizer) -> None:
    nothing, some, every = read(["x", "A b. X x.", "A b."], Blind(tokenizer.vocabulary), 9, "sentence")
    assert (nothing.parts, nothing.flags) == ((), ("untranslatable",))
    assert [segment.typed for segment in some.parts] == ["A b."] and "untranslatable" in some.flags
    assert every.flags == ()


def test_a_sentence_of_the_longest_length_is_not_broken(tokenizer: Tokenizer) -> None:
    (found,) = read(["A b c. D e a."], tokenizer, 4, "long")
    assert [segment.typed for segment in found.parts] == ["A b c.", "D e a."] and "broken" not in found.flags


def test_a_clause_of_the_longest_length_is_not_broken(tokenizer: Tokenizer) -> None:
    (found,) = read(["a b c, d e a"], tokenizer, 4, "long")
    assert [segment.typed for segment in found.parts] == ["a b c,", "d e a"]
