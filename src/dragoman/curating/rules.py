"""Rules for pairs of which a model or a service wrote one side (`MadePairs`), and for the text of the other."""

from collections.abc import Sequence
from pathlib import Path

from dragoman.errors import DataError
from dragoman.formats.addresses import missing
from dragoman.formats.lines import without_packing
from dragoman.formats.registry import DATA_FORMAT_OF_SUFFIX
from dragoman.inference.translation import Flag, repeats
from dragoman.surface.masking import missing as lost
from dragoman.surface.protected import code_in, numbers_in, without_overlaps
from dragoman.text.alignment import words_of
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
        if repeats(words_of(text), words_of(made)):
            return FLAGGED["repetition"]
        spans = without_overlaps(text, code_in(text), numbers_in(text))
        kept = [text[span.begin : span.end] for span in spans]
        if lost(made, dict(zip(kept, kept, strict=True)), text, self._written):
            return LOST
        sides = zip(self._detectors, (text, made), strict=True)
        return OTHER_LANGUAGE if any(detector.other(side) for detector, side in sides) else ""


def plain_text(path: Path | str) -> Path:
    """Return the path of a plain text; raise `DataError` if it is missing, or a table, whose rows are no sentences."""
    path = Path(path)
    if not path.is_file():
        raise missing(path, prefixes=False)
    if DATA_FORMAT_OF_SUFFIX.get(without_packing(path).suffix.lower(), "plain") != "plain":
        raise DataError(f"{path} is a table; give plain text, a sentence a line")
    return path
