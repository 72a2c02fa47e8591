"""What a translator hands back: translations, and what a reader should know about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dragoman.inference.sentences import LONGEST_WORD

Flag = Literal["split", "broken", "copied", "truncated", "repetition", "doubtful", "cleaned", "untranslatable"]
"""What a reader should know about a translation; `MEANINGS` says what each means."""

DOUBTFUL_LOG_PROB = -2.0
"""A translation is doubtful if the mean log-probability of its tokens, or of those of one of its sentences, is lower.

A mean of -2 is a probability of 13.5 % a token. Models trained for minutes stay above it for 98 of 100 sentences like
those of their training data; below it stand loops and words without meaning.
"""

MEANINGS: dict[Flag, str] = {
    "split": "translated in several pieces, each by itself",
    "broken": "a sentence was longer than the model takes, and was cut into pieces",
    "copied": f"a word of more than {LONGEST_WORD} characters was copied, not translated",
    "truncated": "the longest length allowed was reached before the translation ended",
    "repetition": "some words come four times or more in a row, and more often than in the source",
    "doubtful": f"the model finds it unlikely: the mean log-probability of its tokens is below {DOUBTFUL_LOG_PROB:g}",
    "cleaned": "control characters or line separators that the model wrote were replaced by spaces",
    "untranslatable": "there is text, but the tokenizer finds no token in it",
}
"""Each flag in plain words."""

_LONGEST_LOOP = 8
_LOOPS = 4


@dataclass(frozen=True)
class Translation:
    """One text and its translation.

    Attributes:
        log_prob: natural logarithm of the translation's probability; the sum of `token_log_probs`.
        score: `log_prob` over length penalty, summed over the segments. It ranks the translations that a search finds;
            those of minimum Bayes risk are ranked by their likeness to all samples, and this stays the model's view.
        tokens: those of the translation as a person reads them, end symbols included.
        token_log_probs: the natural logarithm of each token's probability.
        flags: what a reader should know; see `MEANINGS`.
        unknown_words: words of the source that the vocabulary does not hold.
        alignment: (source word, target word) pairs in order, if `align` was asked for. Both count from 0 over the whole
            line; each target word has at most one source word.
        source_words, target_words: what these count: words, elided articles and punctuation marks. Empty without
            `align`.
        alternatives: the next best translations, best first, as many as were asked for.
    """

    source: str
    text: str = ""
    log_prob: float = 0.0
    score: float = 0.0
    tokens: tuple[str, ...] = ()
    token_log_probs: tuple[float, ...] = ()
    flags: tuple[Flag, ...] = ()
    unknown_words: tuple[str, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()
    source_words: tuple[str, ...] = ()
    target_words: tuple[str, ...] = ()
    alternatives: tuple["Translation", ...] = ()


def repeats(source: Sequence[int], target: Sequence[int]) -> bool:
    """Whether some run of tokens repeats in the target four times or more, and more often than in its source.

    >>> repeats([5, 6], [7, 8, 7, 8, 7, 8, 7, 8]), repeats([5, 5, 5, 5], [7, 7, 7, 7])
    (True, False)
    """
    loops = most_loops(target)
    return loops >= _LOOPS and loops > most_loops(source)


def most_loops(tokens: Sequence[int]) -> int:
    """How often a run of up to eight tokens follows itself at most, the first time included."""
    best = min(len(tokens), 1)
    for size in range(1, min(_LONGEST_LOOP, len(tokens) // 2) + 1):
        same = 0
        for i in range(size, len(tokens)):
            if tokens[i] != tokens[i - size]:
                same = 0
                continue
            same += 1
            best = max(best, same // size + 1)
    return best
