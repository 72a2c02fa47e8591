"""Errors of translations by kind: copied, omitted, repeated or invented text, the wrong language, and lost numbers,
names, placeholders and terms. Start with `Judge`.

Most kinds need only a text and its translation, so they also judge documents and other systems. References and the
probabilities of a model help where they exist. `benchmarks/planted.py` measures each check on planted errors, which are
easier to find than others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from statistics import median
from typing import NamedTuple

from dragoman.inference.translation import Translation, most_loops
from dragoman.languages import UNKNOWN_LANGUAGE, base_language
from dragoman.surface.letters import Truecaser, usual_forms
from dragoman.surface.masking import missing
from dragoman.surface.protected import Names, Span, code_in, numbers_in, replaced
from dragoman.surface.sentences import split_sentences
from dragoman.surface.terms import compiled
from dragoman.surface.words import split_words
from dragoman.text.detection import LanguageDetector

LEAST_LINES, SHORT, OMITTED = 10, 25, 0.6
"""Part is omitted if a translation is shorter than this share of its reference, or of the usual length, which is known
from this many lines; the length of a source with fewer characters says nothing."""
COPIED_WORDS, COPIED_SMALL, LANGUAGE_WORDS = 4, 2, 5
"""Least numbers of source words in a row that count as copied, of those in lower case among them, and of words of a
sentence whose language is judged."""
INVENTED_LOG_PROB, INVENTED_WORDS, SAME_LETTERS = -2.0, 2, 3
"""Words are invented if that many in a row have a lower log-probability. A name is in a translation if a word there
begins with that many of its letters, as in Rome and Roma."""


class Judge:
    """A judge of the translations of a text from one language into another.

    Attributes:
        kinds: the kinds of errors that are judged.
        untested: the other kinds, each with the reason.
    """

    def __init__(
        self, lines: Sequence[Translation], languages: tuple[str, str], terms: tuple[tuple[str, ...], ...] = ()
    ) -> None:
        """Learn from all lines the usual length of a translation, and the names that are usually translated."""
        self.languages, self.terms = languages, compiled(terms)
        ratios = [len(line.text) / len(line.source) for line in lines if line.source.strip() and line.text.strip()]
        self.usual_ratio = median(ratios) if len(ratios) >= LEAST_LINES else 0.0
        self.names = Names(Truecaser(usual_forms(line.source for line in lines), languages[0]), languages[0])
        self.target, self.both = LanguageDetector([languages[1]]), LanguageDetector(languages)
        source, target = map(base_language, languages)
        reasons = {
            "invented": not any(line.word_log_probs for line in lines) and "only probabilities of the model show it",
            "language": (UNKNOWN_LANGUAGE in languages or source == target) and "the languages are not named",
            "names": source in ("de", "lb") and "all nouns of the source language have capitals",
            "terms": not terms and "no list of terms was given (--terms)",
        }
        self.untested = {kind: str(reason) for kind, reason in reasons.items() if reason}
        self.kinds = [kind for kind in KINDS if kind not in self.untested]
        self.translated_names = self._translated_names(lines)

    def findings(self, line: Translation, references: Sequence[str] = ()) -> dict[str, str]:
        """Return the errors of a translation: the kind, and the words that show it. A blank text has none, and neither
        has a translation that equals a reference.
        """
        if not line.source.strip() or line.text in references:
            return {}
        shown = ((kind, KINDS[kind].find(self, line, references)) for kind in self.kinds)
        return {kind: words for kind, words in shown if words}

    def _translated_names(self, lines: Sequence[Translation]) -> frozenset[str]:
        """Return the names that are missing from most translations of the several texts that have them."""
        counts, lacking = Counter[str](), Counter[str]()
        for line in lines:
            names = {*_texts(line.source, self.names.all(line.source))}
            counts.update(names)
            lacking.update(name for name in names if not _has_name(line.text, name))
        return frozenset(name for name, count in lacking.items() if counts[name] > 1 and 2 * count > counts[name])


def _copied(_: Judge, line: Translation, references: Sequence[str]) -> str:
    """Return the words of the source that are in the translation in a row, but in no reference."""
    source, text = line.source.split(), line.text.split()
    match = SequenceMatcher(None, source, text, autojunk=False).find_longest_match()
    words = source[match.a : match.a + match.size]
    copied, small = " ".join(words), sum(word.islower() and word.isalpha() for word in words)
    is_whole = bool(references) and match.size == len(source) == len(text)
    is_copy = (small >= COPIED_SMALL and len(words) >= COPIED_WORDS) or (is_whole and small > 0)
    return copied if is_copy and not any(copied in reference for reference in references) else ""


def _omitted(judge: Judge, line: Translation, references: Sequence[str]) -> str:
    """Return in words that the translation is empty, or far shorter than its shortest reference or than is usual."""
    if not line.text.strip():
        return "the whole text" if any(map(str.isalnum, line.source)) else ""
    expected = min(map(len, references), default=judge.usual_ratio * len(line.source))
    if len(line.source) < SHORT or len(line.text) >= OMITTED * expected:
        return ""
    return f"about {1 - len(line.text) / expected:.0%} of the text"


def _repeated(_: Judge, line: Translation, __: Sequence[str]) -> str:
    """Return in words that the translation repeats a word three times, or some words twice, unlike the source."""
    source, text = ([word.lower() for word in split_words(side) if word.isalpha()] for side in (line.source, line.text))
    if (loops := most_loops(text)) > max(2, most_loops(source)):
        return f"{loops} times in a row"
    source, text = ([word for word, _ in groupby(words)] for words in (source, text))
    return "several words twice in a row" if most_loops(text) > max(1, most_loops(source)) else ""


def _invented(_: Judge, line: Translation, __: Sequence[str]) -> str:
    """Return words in a row that the model itself finds improbable."""
    pairs = [pair for pair in zip(line.target_words, line.word_log_probs, strict=True) if pair[0].isalpha()]
    runs = groupby(pairs, lambda pair: pair[1] < INVENTED_LOG_PROB)
    longest = max(([word for word, _ in run] for is_low, run in runs if is_low), key=len, default=[])
    return " ".join(longest) if len(longest) >= INVENTED_WORDS else ""


def _other_language(judge: Judge, line: Translation, _: Sequence[str]) -> str:
    """Return the first sentence that is in another language than that of the translation."""
    for sentence in map(str.strip, split_sentences(line.text)):
        code = code_in(sentence)
        words = replaced(sentence, code, [""] * len(code)).split()
        if len(words) >= LANGUAGE_WORDS:
            guesses = judge.both.guesses(" ".join(words))
            if judge.target.other(" ".join(words)) or (guesses and guesses[0].language == judge.languages[0]):
                return sentence
    return ""


def _lost_numbers(judge: Judge, line: Translation, references: Sequence[str]) -> str:
    """Return the numbers of the source that the translation lacks, and those that only the translation has."""
    lost = _lost(line.text, references, lambda text: _lacking(text, line.source, numbers_in, judge.languages[1]))
    added = _lacking(line.source, line.text, numbers_in, judge.languages[0])
    return ", ".join([*lost, *(f"{number} (not in the source)" for number in added)])


def _lost_names(judge: Judge, line: Translation, references: Sequence[str]) -> str:
    names = [name for name in _texts(line.source, judge.names.all(line.source)) if name not in judge.translated_names]
    lost = _lost(line.text, references, lambda text: [name for name in names if not _has_name(text, name)])
    return ", ".join(lost)


def _lost_code(judge: Judge, line: Translation, references: Sequence[str]) -> str:
    return ", ".join(
        _lost(line.text, references, lambda text: _lacking(text, line.source, code_in, judge.languages[1]))
    )


def _lost(text: str, references: Sequence[str], lacking: Callable[[str], list[str]]) -> list[str]:
    """Return what a translation lacks; if there are references, only what one of them has."""
    lost = lacking(text)
    if not lost or not references:
        return lost
    translated = set.intersection(*({*lacking(reference)} for reference in references))
    return [words for words in lost if words not in translated]


def _lost_terms(judge: Judge, line: Translation, _: Sequence[str]) -> str:
    return ", ".join(judge.terms.missing(line.source, line.text))


def _lacking(text: str, source: str, spans_in: Callable[[str], Sequence[Span]], language: str) -> list[str]:
    """Return the spans of a source that a text in a language lacks."""
    kept = _texts(source, spans_in(source))
    return missing(text, dict(zip(kept, kept, strict=True)), source, language) if kept else []


def _texts(text: str, spans: Iterable[Span]) -> list[str]:
    return [text[span.begin : span.end] for span in spans]


def _has_name(text: str, name: str) -> bool:
    """Return True if a text has a word with the first letters of each word of a name."""
    words = re.findall(r"\w+", text.casefold())
    parts = (part[:SAME_LETTERS] for part in re.findall(r"\w+", name.casefold()))
    return all(any(word.startswith(part) for word in words) for part in parts)


class ErrorKind(NamedTuple):
    """A kind of error; `find` is its check, which returns the words that show it, or an empty text. Its precision and
    recall are those in `benchmarks/results/planted.json`.
    """

    meaning: str
    find: Callable[[Judge, Translation, Sequence[str]], str]
    precision: float
    recall: float


KINDS = {
    "copied": ErrorKind("words of the source were copied instead of translated", _copied, 1.0, 0.99),
    "omitted": ErrorKind("part of the text is missing", _omitted, 0.93, 0.9),
    "repeated": ErrorKind("words are repeated", _repeated, 0.99, 1.0),
    "invented": ErrorKind("words in a row that the model finds improbable: invented or guessed", _invented, 0.99, 0.98),
    "language": ErrorKind("a sentence is in another language", _other_language, 1.0, 1.0),
    "numbers": ErrorKind("a number was lost, changed or added", _lost_numbers, 0.98, 1.0),
    "names": ErrorKind("a name was lost or changed", _lost_names, 0.9, 0.97),
    "placeholders": ErrorKind("an address, variable or other code was lost or changed", _lost_code, 0.95, 1.0),
    "terms": ErrorKind("a term has another translation than in the list of terms", _lost_terms, 0.8, 1.0),
}
LOST = ("numbers", "names", "placeholders")
"""Kinds that count together as `lost` in a finished translation; those of a model are flagged by its translator."""
