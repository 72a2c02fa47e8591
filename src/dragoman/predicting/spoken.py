"""Which words of a text spoke for its label: how much less likely the label is without each of them (Li et al. 2016).

The product of gradient and input, which is cheaper, says almost nothing where a last norm ignores the scale of its
input, as in models of the preset `modern`.
"""

from collections.abc import Sequence

import numpy as np

from dragoman.model import EncoderModel
from dragoman.predicting.rows import Row, logits_of
from dragoman.tokenizing.framing import Framing
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.words import split_words


def word_shares(
    model: EncoderModel, tokenizer: Tokenizer, framing: Framing, text: str, row: Row, label: int
) -> tuple[tuple[str, float], ...]:
    """Each word of a text, and by how many nats the label's log-probability falls when the word is taken out; below 0
    the word speaks against the label.
    """
    words = split_words(text)
    ends = [last for _, last in tokenizer.offsets(text)]
    without = [_without(row.ids, ends, range(begin + 1, begin + len(word) + 1)) for word, begin in words]
    whole, *others = (_log_prob(logits, label) for logits in logits_of(model, [row, *map(Row, without)], framing))
    return tuple((word, whole - other) for (word, _), other in zip(words, others, strict=True))


def _without(ids: Sequence[int], ends: Sequence[int], word: range) -> list[int]:
    """The tokens but those that end inside a word, which takes the space before it along."""
    return [token for token, last in zip(ids, ends, strict=False) if last not in word]


def _log_prob(logits: np.ndarray, label: int) -> float:
    exact = logits.astype(np.float64)
    return float(exact[label] - np.logaddexp.reduce(exact))
