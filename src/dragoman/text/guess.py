"""Guesses a task from the form of some text. Text that trains a translator is never taken for anything else."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dragoman.errors import CheckpointError, DataError
from dragoman.files import REPORT
from dragoman.formats.addresses import HUB, matching
from dragoman.formats.column_names import SOURCE, TARGET, side_of
from dragoman.formats.lines import without_packing
from dragoman.formats.rows import Table
from dragoman.languages import language_of
from dragoman.serialization import read_object
from dragoman.text.column_statistics import LEAST_ROWS, MOST_LABELS, Statistics, few_single
from dragoman.text.columns import named_column
from dragoman.text.conll import are_tagged_words, lists_in, names_words
from dragoman.text.examples import SAMPLED_ROWS, name_label_columns
from dragoman.text.inputs import files_in, sets_of
from dragoman.text.label_columns import LABELS
from dragoman.text.settings import PHRASEBOOK, DataSettings
from dragoman.text.tables import TextFile

TASKS = ("classify", "tag", "language_model")

GuessedTask = tuple[str, str]
"""A task, and the reason in words."""

_LABEL = re.compile(r"[\w:./+-]*\w")


def guess_task(settings: DataSettings) -> GuessedTask | None:
    """Return `classify`, `tag` or `language_model`, and the reason; None for parallel text, or if nothing is clear."""
    if not isinstance(settings.path, str) or settings.path == PHRASEBOOK:
        return None
    if settings.source_column or settings.target_column:
        return None
    try:
        return _guess(settings)
    except (DataError, CheckpointError, OSError):
        if settings.path.startswith(HUB):
            raise  # it took long, and reading it again would take as long
        return None  # reading the text will raise it again


def _guess(settings: DataSettings) -> GuessedTask | None:
    path = Path(str(settings.inside(settings.path)))
    if (path / REPORT).is_file():
        task = read_object(path / REPORT).get("task")
        return (task, f"{path} was prepared for it") if task in TASKS else None
    address = sets_of(settings, files_in)["train"]
    path = Path(str((matching(address) or [address])[0]))
    file = TextFile.at(path, settings.format, settings.encoding_errors, settings.quoted)
    if without_packing(path).suffix.lower() == ".conllu":
        return "tag", f"{path.name} is CoNLL-U"
    if file.format in ("plain", "tsv"):
        lines = file.first_lines(SAMPLED_ROWS)
        if are_tagged_words(lines):
            return "tag", f"{path.name} holds a word and a label on each line, and blank lines between sentences"
        if file.format == "plain":
            return _guess_lines(path, lines)
    return _guess_table(path, file.table(), settings)


def _guess_table(path: Path, table: Table, settings: DataSettings) -> GuessedTask | None:
    """Find a column of texts, and one of few different, short values. Another one of phrases may be parallel text."""
    if table.has_records and len(lists_in(table.first_record()[1])) > 1:
        return "tag", f"each row of {path.name} holds two lists, of words and labels"
    if not table.has_records and names_words(next(table.rows(Counter()), (0, []))[1]):
        return "tag", f"{path.name} has columns of words and their labels"
    named = name_label_columns(table, settings.label_naming)
    names, columns = named.names, named.measured()
    is_named = settings.text_column or settings.label_column
    texts = [at for at, column in enumerate(columns) if column.are_texts]
    phrases = [at for at, column in enumerate(columns) if column.are_phrases]
    languages, sides = {language_of(name) for name in names}, {side_of(name) for name in names}
    names_a_pair = len(languages - {None}) > 1 or {SOURCE, TARGET} <= sides
    if not is_named and (len(texts) != 1 or phrases != texts or names_a_pair):
        return None
    named_label = named_column(names, LABELS)
    labels = [at for at, column in enumerate(columns) if at not in texts and _are_labels(column, at == named_label)]
    if not labels or (len(labels) > 1 and named_label not in labels and not is_named):
        return None
    at = named_label if named_label in labels else labels[0]
    name = "" if names[at].isdecimal() else f" {names[at]!r}"
    return "classify", f"{path.name} has a column{name} of few different labels next to its texts"


def _are_labels(column: Statistics, is_named: bool) -> bool:
    if column.rows < LEAST_ROWS or column.distinct < 2 or not column.may_be_labels or not few_single(column.counts):
        return False
    return is_named or column.distinct <= max(3, MOST_LABELS * column.rows)


def _guess_lines(path: Path, lines: Sequence[str]) -> GuessedTask | None:
    """Find lines that begin with their label, or running text."""
    rows = [line.split(maxsplit=1) for line in lines if line.strip()]
    counts = Counter(row[0] for row in rows)
    if (
        len(rows) >= LEAST_ROWS
        and all(len(row) == 2 and _LABEL.fullmatch(row[0]) for row in rows)
        and 2 <= len(counts) <= max(3, MOST_LABELS * len(rows))
        and few_single(counts, in_any_case=0)  # short prose repeats its first words, too
    ):
        labels = " or ".join(label for label, _ in counts.most_common(2))
        return "classify", f"the lines of {path.name} begin with a label, such as {labels}"
    if without_packing(path).suffix.lower() == ".txt":
        return "language_model", f"{path.name} is running text: its lines have no columns and no labels"
    return None
