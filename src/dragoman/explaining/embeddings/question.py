"""Questions to an embedding space: the neighbours of a word, and analogies such as `king - man + woman`."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from dragoman.errors import ConfigError
from dragoman.explaining.embeddings.space import EmbeddingSpace, Neighbour, Term

_SIGNS = {"+": 1, "-": -1}
_NOTHING = 1e-5
"""The length of a sum of vectors of length one, below which only rounding is left."""


class Question(NamedTuple):
    """Words that are added and subtracted. A single word asks for its neighbours."""

    words: tuple[str, ...]
    signs: tuple[int, ...]
    """1 or -1 for each word."""

    def __str__(self) -> str:
        parts = [f"{'+' if sign > 0 else '-'} {word}" for word, sign in zip(self.words, self.signs, strict=True)]
        return " ".join(parts).removeprefix("+ ")


class Answer(NamedTuple):
    """What lies nearest to a question."""

    question: Question
    terms: tuple[Term, ...]
    neighbours: list[Neighbour]
    alone: list[Neighbour]
    """The nearest entries to the first word alone. An analogy that is found among them owes nothing to the other words
    (Linzen 2016). Empty for a question of one word."""

    def facts(self) -> dict[str, object]:
        """As plain values for JSON."""
        return {
            "question": str(self.question),
            "terms": [{"text": term.text, "pieces": list(term.pieces)} for term in self.terms],
            "neighbours": [each._asdict() for each in self.neighbours],
            "nearest_to_first_word_alone": [each._asdict() for each in self.alone],
        }


def read_question(arguments: Sequence[str]) -> Question:
    """Reads words with `-` and `+` between them. A single argument is a word, even if it is a sign.

    >>> str(read_question(["king", "-", "man", "+", "woman"]))
    'king - man + woman'

    Raises:
        ConfigError: a sign or a word is missing.
    """
    if len(arguments) == 1 and not _holds_sign(arguments[0]):
        return Question(tuple(arguments), (1,))
    form = "the form is: WORD - WORD + WORD, each an argument of its own"
    said = " ".join(arguments)
    for place, argument in enumerate(arguments):
        if _holds_sign(argument):
            raise ConfigError(f"{argument!r} is one argument; {form}")
        if place % 2 == 0 and argument in _SIGNS:
            raise ConfigError(f"{said!r}: a word is missing before argument {place + 1}, {argument!r}; {form}")
        if place % 2 == 1 and argument not in _SIGNS:
            raise ConfigError(f"{said!r}: - or + is missing between {arguments[place - 1]!r} and {argument!r}; {form}")
    if len(arguments) % 2 == 0:
        raise ConfigError(f"{said!r} ends with a sign: a word is missing after it; {form}")
    return Question(tuple(arguments[::2]), (1, *(_SIGNS[sign] for sign in arguments[1::2])))


def answer(space: EmbeddingSpace, question: Question, count: int = 10) -> Answer:
    """The `count` entries nearest to a question; the entries of its own words are left out.

    Several words make an analogy by 3CosAdd (Mikolov et al. 2013, "Linguistic Regularities in Continuous Space Word
    Representations"): vectors of length one are added and subtracted, and the entry of the largest cosine with the sum
    answers. As there, the words of the question are left out of the answers, without which the first word would often
    answer itself.

    Raises:
        DataError: a word or piece that the vocabulary does not hold.
        ConfigError: the words cancel out.
    """
    terms = tuple(space.find(word) for word in question.words)
    vectors = torch.stack([space.vector(term) for term in terms])
    asked = (torch.tensor(question.signs)[:, None] * vectors).sum(0)
    if asked.norm() < _NOTHING:
        raise ConfigError(f"{question}: these words cancel out, so that no direction is left")
    without = {id_ for term in terms for id_ in term.ids}
    alone = space.nearest(vectors[0], 3, without) if len(terms) > 1 else []
    return Answer(question, terms, space.nearest(asked, count, without), alone)


def _holds_sign(argument: str) -> bool:
    """Whether an argument is several words with a sign between them: a question in quotes."""
    words = argument.split()
    return len(words) > 1 and any(word in _SIGNS for word in words)
