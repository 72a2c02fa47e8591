"""A text that grows by tokens: which part of it no further token changes, and where it stops."""

import codecs
from collections.abc import Sequence

import numpy as np

from dragoman.tokenizing.tokenizer import Tokenizer, only_unicode


class StopTexts:
    """Texts at which writing ends, as a `Request` asks: whether an output has just come to one of them.

    Raises:
        TokenizerError: a text is not Unicode.
    """

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer) -> None:
        self.texts = [tokenizer.normalise(text) for text in texts]
        with only_unicode(self.texts):
            self._spelt = [text.encode() for text in self.texts]
        self._longest = max(map(len, self._spelt), default=0)  # each token spells at least one byte
        self._tokenizer = tokenizer

    def __call__(self, tokens: Sequence[int] | np.ndarray) -> bool:
        if not self._spelt:
            return False
        end = b"".join(self._tokenizer.spelling(int(token)) for token in tokens[-self._longest :])
        return any(spelt in end for spelt in self._spelt)

    def cut(self, text: str) -> str:
        """A text up to the first of the stop texts in it."""
        return text[: min((place for stop in self.texts if (place := text.find(stop)) >= 0), default=len(text))]

    def unsettled(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a stop text."""
        lengths = (length for stop in self.texts for length in range(1, len(stop)) if text.endswith(stop[:length]))
        return max(lengths, default=0)


class GrowingText:
    """What a language model writes. Characters of several bytes are never split.

    Attributes:
        tokens: how many it has taken in.
    """

    def __init__(self, tokenizer: Tokenizer, stops: StopTexts) -> None:
        self._tokenizer, self._stops = tokenizer, stops
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unsettled = ""
        self.tokens = 0

    def grow(self, tokens: Sequence[int], final: bool = False) -> str:
        """Takes in the next tokens; returns the text that is settled by them. With `final`, nothing more will come."""
        self.tokens += len(tokens)
        self._unsettled += self._decoder.decode(b"".join(map(self._tokenizer.spelling, tokens)), final)
        text = self._stops.cut(self._unsettled)
        settled = len(text) if final else len(text) - self._stops.unsettled(text)
        self._unsettled = self._unsettled[settled:]
        return text[:settled]
