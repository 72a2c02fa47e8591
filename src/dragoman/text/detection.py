"""Detection of the language of a text, by py3langid, which knows 139 languages by typical short pieces of text."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from operator import eq
from threading import Lock
from typing import Any, NamedTuple

from dragoman.languages import UNKNOWN_LANGUAGE

_LEAST_ROWS, _LEAST_WORDS = 20, 4  # fewer clear rows say nothing of a column; rows of fewer words are not judged
_FEWEST, _SMALLEST_SHARE = 5, 0.2  # rows that must show which two languages a text is in
_CHARACTERS, _FEW_CHARACTERS = 500, 50  # looked at, from the first; the few are enough to distinguish two languages
_LOADING = Lock()


class Guess(NamedTuple):
    """A language, by its tag in the detector, and the probability that a text is in it."""

    language: str
    confidence: float


class LanguageDetector:
    """A detector that finds which of its languages a text is in, or that the text is in another one.

    Before it reads a text, each of its languages is as probable as all others together. These are the languages with a
    code of two letters: dialects have three, and are too easily found in the language that they belong to. A language
    that py3langid does not know is never detected.
    """

    def __init__(self, languages: Iterable[str]) -> None:
        self.languages = tuple(language for language in languages if language != UNKNOWN_LANGUAGE)

    def guesses(self, text: str) -> list[Guess]:
        """Return the languages of the detector, the most probable first; none for a text without letters.

        >>> [guess.language for guess in LanguageDetector(["it", "en-GB"]).guesses("Where is the station?")]
        ['en-GB', 'it']
        """
        if not self._labels or not any(map(str.isalpha, text)):
            return []
        own, others = self._weights(text)
        total = sum(own.values()) + sum(others.values())
        guesses = [Guess(language, own[label] / total) for language, label in self._labels.items()]
        return sorted(guesses, key=lambda guess: -guess.confidence)

    def other(self, text: str) -> str | None:
        """Return the code of another language, if a text is more probably in it than in all of the detector's together,
        and is more than names.

        >>> detector = LanguageDetector(["en", "it"])
        >>> [detector.other(text) for text in ("Wo ist der Bahnhof?", "Dov'è la stazione?", "OK")]
        ['de', None, None]
        """
        if not self._labels or text.istitle() or best_guess(text)[0] in self._labels.values():
            return None
        own, others = self._weights(text)
        best = max(others, key=others.__getitem__)
        return best if others[best] > sum(own.values()) else None

    @cached_property
    def _labels(self) -> dict[str, str]:
        """The languages that py3langid knows, each with its name there."""
        return {language: label for language in self.languages if (label := _label(language))}

    def _weights(self, text: str) -> tuple[dict[str, float], dict[str, float]]:
        """Return the probabilities of the detector's languages, and of the others, up to one factor."""
        ranked = dict(_library().rank(text[:_CHARACTERS]))
        own = {label: ranked.pop(label) for label in set(self._labels.values())}
        others = {label: weight for label, weight in ranked.items() if len(label) == 2}
        return own, {label: weight / len(others) for label, weight in others.items()}


class ColumnLanguage:
    """The language of a column: that of the rows it learns from, if they agree with each other and with its `tag`, if
    that is known. Its verdict on a row depends on no others.
    """

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._clear = Counter[str]()
        self._words = defaultdict[str, set[str]](set)

    def learn(self, guess: Guess, words: Sequence[str]) -> None:
        """Learn from one of the first rows, whose language was guessed."""
        self._clear[guess.language] += guess.confidence > 0.5
        self._words[guess.language].update(filter(str.isalpha, words))

    @cached_property
    def name(self) -> str | None:
        """The name that py3langid has for the language; None if the rows say nothing clear."""
        (name, most), (_, second) = [*self._clear.most_common(2), ("", 0), ("", 0)][:2]
        agrees = most >= max(_LEAST_ROWS, 2 * second) and (self._tag == UNKNOWN_LANGUAGE or _label(self._tag) == name)
        return name if agrees else None

    def lacks(self, text: str, words: Sequence[str]) -> bool:
        """Return True if a text is in another language. It is not, and this is fast, if half of its `words` are known
        from the rows that were learned from.
        """
        if self.name is None or len(words) < _LEAST_WORDS:
            return False
        if len(self._words[self.name].intersection(words)) >= len(words) / 2 or best_guess(text)[0] == self.name:
            return False
        return LanguageDetector([self.name]).other(text) is not None


Direction = tuple[str, str]  # the languages of sources and targets, as py3langid names them


def find_direction(named: Direction, rows: Sequence[tuple[Guess, Guess]]) -> tuple[Direction | None, list[bool | None]]:
    """Return the languages of sources and targets, and for each row whether it is exchanged; None if that is unclear.

    The two languages that most rows have on opposite sides, by the guesses, run as they are named, or else as in most
    rows. If too few rows show them, the names are trusted, and so are the rows.
    """
    sides = [(source.language, target.language) for source, target in rows]
    counts = Counter(pair for pair in sides if pair[0] != pair[1])
    most = max(counts, key=lambda pair: counts[pair] + counts[pair[1], pair[0]], default=("", ""))
    ways, (first, second) = [most, (most[1], most[0])], (labels := [_label(language) for language in named])
    if sum(counts[way] for way in ways) < max(_FEWEST, _SMALLEST_SHARE * len(rows)):
        return (first, second) if first and second and first != second else None, [False] * len(rows)
    direction, back = sorted(ways, key=lambda way: (sum(map(eq, way, labels)), counts[way]), reverse=True)
    return direction, [{direction: False, back: True}.get(pair) for pair in sides]


def lean(text: str, languages: Direction) -> float:
    """Return the nats by which a text is likelier in the first of two languages."""
    weights = dict(_library().rank(text[:_FEW_CHARACTERS]))
    first, second = (max(weights[language], 1e-9) for language in languages)
    return math.log(first / second)


def best_guess(text: str) -> Guess:
    """Return the most probable of all languages, as py3langid names it, with its confidence rounded to 0 or 1."""
    language, confidence = _library().classify(text[:_CHARACTERS])
    return Guess(language, round(confidence))


def _library() -> Any:
    with _LOADING:
        return _loaded()


@cache
def _loaded() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def _label(language: str) -> str | None:
    """Return the name that py3langid has for a language, such as `no` for `nb-NO`."""
    from langcodes import closest_match

    code, labels = language.partition("-")[0].lower(), _library().labels
    label = code if code in labels else closest_match(code, labels, max_distance=1)[0]
    return label if label in labels else None
