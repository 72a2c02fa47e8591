"""Learns the tokenizers of both languages from parallel text, or from the training split of prepared data."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dragoman.files import new_folder
from dragoman.progress import Progress, silent
from dragoman.text.addresses import Address
from dragoman.text.prepared import read_split
from dragoman.text.readers import Reading, open_pairs
from dragoman.text.report import REPORT, read_report
from dragoman.text.settings import ReadingSettings
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

log = logging.getLogger(__name__)


class TokenizerResult(NamedTuple):
    """The tokenizers of both sides, their folder, and the first pair that they learnt from."""

    folder: Path
    tokenizers: Tokenizers
    example: tuple[str, str]


def train_tokenizer(
    data: Address,
    folder: Path | str,
    settings: TokenizerSettings | None = None,
    reading: ReadingSettings | None = None,
    progress: Progress = silent,
) -> TokenizerResult:
    """Learns a vocabulary for both sides of `data`, and saves the tokenizers in a new `folder`.

    `data` is the address of parallel text, read as `reading` says, or a folder of prepared data.

    Raises:
        DataError: the text cannot be read, or `folder` exists already.
        TokenizerError: there is no text, or it is not Unicode.
        ConfigError: spaCy's rules are asked for without a known language.
    """
    with new_folder(folder) as aside:
        text = _TrainingText.of(data, reading or ReadingSettings())
        tokenizers = learn_tokenizers(text.pairs, settings, progress, text.languages)
        tokenizers.save(aside)
    return TokenizerResult(Path(folder), tokenizers, next(text.pairs()))


class _TrainingText(NamedTuple):
    """Parallel text, or the training split of prepared data."""

    source: Reading | Path
    languages: tuple[str, str]

    @classmethod
    def of(cls, data: Address, settings: ReadingSettings) -> "_TrainingText":
        if isinstance(data, str) and (Path(data) / REPORT).is_file():
            report = read_report(data)
            return cls(Path(data), (report.source_language, report.target_language))
        reading = open_pairs(data, settings.naming, settings.format, settings.encoding_errors)
        for choice, reason in reading.reasons.items():
            log.info("%s: %s", choice, reason)
        for doubt in reading.doubts:
            log.warning("%s", doubt)
        return cls(reading, reading.languages)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The pairs, from the first on, at each call."""
        if isinstance(self.source, Path):
            return read_split(self.source, "train")
        return ((pair.source, pair.target) for pair in self.source if not pair.fault)
