"""Which language a text is in, by py3langid: one of those that a program deals with, or another one.

py3langid knows how typical short pieces of text are of each of 139 languages. The shorter a text, the more languages
stay possible, and the lower is the confidence.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

from dragoman.text.languages import UNKNOWN_LANGUAGE

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

LEARN_ROWS = 2_000
"""The number of rows, from the first, that tell the language of a column."""
_LEAST = 20
"""Fewer clear rows say nothing of a column."""
_RIVAL = 0.5
"""How many clear rows another language may have for each of those of the column's language."""
_JUDGED = 500
"""The number of characters of a text, from the first, that are looked at."""


class Guess(NamedTuple):
    """A language, by the tag that the detector was given, and the probability that a text is in it."""

    language: str
    confidence: float


class LanguageDetector:
    """Tells in which of its languages a text is, or that the text is in another one.

    Before it reads a text, each of its languages is as probable as all others together. These are the languages with a
    code of two letters: dialects have three, and are too easily found in the language that they belong to. A language
    that py3langid does not know is never detected.
    """

    def __init__(self, languages: Iterable[str]) -> None:
        self.languages = tuple(language for language in languages if language != UNKNOWN_LANGUAGE)

    def guesses(self, text: str) -> list[Guess]:
        """The languages of the detector, the most probable first; none for a text without letters.

        >>> [guess.language for guess in LanguageDetector(["it", "en-GB"]).guesses("Where is the station?")]
        ['en-GB', 'it']
        """
        if not self._labels or not any(map(str.isalpha, text)):
            return []
        weights = self._weights(text)
        total = sum(weights.values())
        found = [Guess(language, weights[label] / total) for language, label in self._labels.items()]
        return sorted(found, key=lambda guess: -guess.confidence)

    def other(self, text: str) -> str | None:
        """The code of another language, if a text is more probably in it than in all of the detector's together.

        >>> detector = LanguageDetector(["en", "it"])
        >>> [detector.other(text) for text in ("Wo ist der Bahnhof?", "Dov'è la stazione?", "OK")]
        ['de', None, None]
        """
        own = {*self._labels.values()}
        if not own or _identifier().classify(text[:_JUDGED])[0] in own:  # faster than all weights
            return None
        weights = self._weights(text)
        best = next(label for label in weights if label not in own)
        return best if weights[best] > sum(weights[label] for label in own) else None

    @cached_property
    def _labels(self) -> dict[str, str]:
        """The languages that py3langid knows, each with its name there."""
        labels = {language: _label(language) for language in self.languages}
        return {language: label for language, label in labels.items() if label}

    def _weights(self, text: str) -> dict[str, float]:
        """How probable each language is, up to a factor; the others from the most probable on."""
        own = {*self._labels.values()}
        found = {label: each for label, each in _identifier().rank(text[:_JUDGED]) if label in own or len(label) == 2}
        others = len(found) - len(own)
        return {label: each if label in own else each / others for label, each in found.items()}


def column_detector(told: str, texts: Sequence[str]) -> LanguageDetector | None:
    """A detector of the language of a column, by its first rows; None if they disagree, are too few, or are in another
    language than the column is said to be (`told`).
    """
    if len(texts) < _LEAST:
        return None
    guesses = (_identifier().classify(text[:_JUDGED]) for text in texts)
    clear = Counter(label for label, confidence in guesses if confidence > 0.5)
    (name, most), (_, second) = [*clear.most_common(2), ("", 0), ("", 0)][:2]
    agrees = told == UNKNOWN_LANGUAGE or _label(told) == name
    return LanguageDetector([name]) if agrees and most >= _LEAST and second <= _RIVAL * most else None


@cache
def _identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def _label(language: str) -> str | None:
    """The name that py3langid has for a language.

    >>> [_label(tag) for tag in ("en-GB", "zh-Hant", "nb", "fil", "scn")]
    ['en', 'zh', 'no', 'tl', None]
    """
    from langcodes import closest_match

    code, labels = language.partition("-")[0].lower(), _identifier().labels
    found = code if code in labels else closest_match(code, labels, max_distance=1)[0]
    return found if found in labels else None
