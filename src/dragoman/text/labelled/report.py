"""The report on prepared labelled text: what was read, the labels and their counts, the splits, and what was found."""

from pathlib import Path
from typing import Literal

import pydantic

from dragoman.config import Settings
from dragoman.documents import read_document
from dragoman.errors import DataError
from dragoman.text.labelled.examples import Task
from dragoman.text.report import REPORT

FORMAT = 1
"""Of `data.json`."""


class LabelledSplit(Settings):
    """One split: its size, the SHA-256 of its file, and where it came from."""

    examples: int = pydantic.Field(ge=0)
    words: int | None
    """Of all its texts; None where a label belongs to a whole text."""
    sha256: str
    origin: str
    """`given`, `the rest`, or how it was held out of the training text."""


class Found(Settings):
    """How many examples have something in common, and where the first stood."""

    count: int = pydantic.Field(ge=1)
    first: str


class LabelledReport(Settings):
    """Everything that is known about prepared labelled text: `data.json`."""

    format: Literal[1] = FORMAT
    task: Task
    """Distinguishes this report from that of pairs and of running text."""
    identity: str
    """A hash, equal for equal text and settings, wherever the files lie."""
    name: str
    """Address of the training text."""
    language: str
    rows: dict[str, int]
    """Examples read from each set that is given, before any is dropped or held out."""
    reasons: dict[str, str]
    """How each of them was read, and why so."""
    labels: dict[str, int]
    """Label -> texts, or words, that have it in training; sorted by label."""
    splits: dict[str, LabelledSplit]
    findings: dict[str, Found]
    """What was found, by kind."""
    repairs: dict[str, int]
    """How often something was mended, by kind."""
    warnings: tuple[str, ...]


def read_labelled_report(folder: Path | str) -> LabelledReport:
    """Reads the report on prepared labelled text.

    Raises:
        DataError: there is none, or it is damaged or of another kind.
    """
    return read_document(Path(folder) / REPORT, LabelledReport, FORMAT, error=DataError)
