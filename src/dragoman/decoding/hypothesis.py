"""What a search writes: outputs, the beginnings of outputs, and the penalty by which their lengths compare."""

from collections.abc import Sequence
from typing import NamedTuple


def length_penalty(length: int, exponent: float) -> float:
    """The length penalty of Wu et al. (2016, eq. 14), ((5 + length) / 6)^exponent; the end symbol counts.

    Log-probabilities are divided by it, so that a search does not favour short outputs.

    >>> length_penalty(1, 0.6), length_penalty(7, 1.0)
    (1.0, 2.0)
    """
    return ((5 + length) / 6) ** exponent


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
