"""What a search writes: outputs, and the beginnings of outputs."""

from collections.abc import Sequence
from typing import NamedTuple

from dragoman.decoding.length_penalty import length_penalty


class Hypothesis(NamedTuple):
    """An output, or the beginning of one; if it has `ended`, its last token is the end symbol.

    `total` is the sum of `log_probs`, one natural logarithm a token.
    """

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    total: float = 0.0
    ended: bool = False

    def score(self, exponent: float) -> float:
        """Total over length penalty, which ranks hypotheses of different lengths."""
        return self.total / length_penalty(len(self.tokens), exponent)

    def continued(self, token: int, log_prob: float, total: float, end: int) -> "Hypothesis":
        """This hypothesis and one more token."""
        return Hypothesis((*self.tokens, token), (*self.log_probs, log_prob), total, token == end)


def common_beginning(rivals: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The tokens that all of these begin with."""
    first, last = min(rivals), max(rivals)  # in the order of tokens, so what these two share, all share
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first[: min(len(first), len(last)) if same is None else same]
