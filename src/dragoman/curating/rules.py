"""Rules for pairs of which a model or a service wrote one side (`MadePairs`), and the lines that a model reads."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman.directions import TAG
from dragoman.errors import ConfigError
from dragoman.formats.lines import read_lines
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Flag
from dragoman.inference.translator import Translator
from dragoman.languages import SEVERAL
from dragoman.surface.masking import missing
from dragoman.surface.protected import code_in, numbers_in, without_overlaps
from dragoman.text.checks import OTHER_LANGUAGE, CheckSettings, fault
from dragoman.text.detection import LanguageDetector

LOST = "a number or code is missing on the side that was made"
FLAGGED: dict[Flag, str] = {
    "truncated": "the side that was made does not end",
    "repetition": "the side that was made repeats some words",
    "lost": LOST,
    "language": OTHER_LANGUAGE,
    "untranslatable": "no token of the text is known",
}
"""Flags of a translation for which a pair is dropped, and the reasons."""


class MadePairs:
    """The rules for texts in one language, of which translations into another are made."""

    def __init__(self, read: str, written: str) -> None:
        self._written, self._detectors = written, [LanguageDetector([language]) for language in (read, written)]
        self._checks = CheckSettings()

    def broken(self, text: str, made: str, flags: Sequence[Flag] = ()) -> str:
        """Return the first rule that a text and its translation break; empty if none.

        >>> rules = MadePairs("en", "it")
        >>> rules.broken("It costs 35 euros.", "Costa 53 euro."), rules.broken("Two cats sleep.", "Due gatti dormono.")
        ('a number or code is missing on the side that was made', '')
        """
        if broken := fault(text, made, self._checks):
            return broken
        if flagged := next((FLAGGED[flag] for flag in flags if flag in FLAGGED), ""):
            return flagged
        spans = without_overlaps(text, code_in(text), numbers_in(text))
        kept = [text[span.begin : span.end] for span in spans]
        if missing(made, dict(zip(kept, kept, strict=True)), text, self._written):
            return LOST
        sides = zip(self._detectors, (text, made), strict=True)
        return OTHER_LANGUAGE if any(detector.other(side) for detector, side in sides) else ""


def in_one_direction(translator: Translator, options: SearchOptions) -> Translator:
    """Return a translator of one direction; raise `ConfigError` if it is not clear which."""
    translator = translator.bound(options)
    if SEVERAL in translator.languages or (len(translator.tags.ids) > 1 and not options.target_language):
        raise ConfigError("the model has several directions; give --source-language and --target-language")
    return translator


def lines_for(translator: Translator, path: Path) -> Iterator[str]:
    """Yield the lines of a file, without tags if the model would take them for those of languages."""
    for line in read_lines(path):
        yield TAG.sub("", line).lstrip() if translator.tags.ids else line
