"""Prepares text in a folder: `train`, `dev` and `test`, and a report, `data.json`.

Pairs, labelled texts and running text take the same steps. They are read (`inputs`, `readers`, `examples`), checked
(`checks`), split without leaks (`split`) and written with a report (`report`); their differences are in
`prepare_pairs`, `prepare_labelled` and `prepare_running`. A folder that was made from the same text is used as it is.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from dragoman.config import choose
from dragoman.errors import DataError
from dragoman.files import REPORT, check_new_folder, new_folder, sha256
from dragoman.formats.addresses import Address
from dragoman.progress import Progress, as_progress, silent
from dragoman.run_folder import split_of, text_of
from dragoman.serialization import write_json
from dragoman.text.labels import Task
from dragoman.text.prepare_directions import DirectionsText, open_text
from dragoman.text.prepare_labelled import LabelledText
from dragoman.text.prepare_pairs import PairText
from dragoman.text.prepare_running import RunningText
from dragoman.text.report import (
    DataReport,
    DirectionsReport,
    LabelledReport,
    TextReport,
    direction_folders,
    read_report,
)
from dragoman.text.settings import DataSettings

Text = PairText | DirectionsText | LabelledText | RunningText
"""Text that settings name. Each kind can `fill` a new folder; by `identity` and `changes`, the report in a folder is
compared with the text."""

log = logging.getLogger(__name__)


def prepare_data(
    data: DataSettings | Address | Sequence[Address],
    folder: Path | str,
    progress: Progress | bool = True,
    **settings: Any,
) -> DataReport | DirectionsReport:
    """Read, check and split parallel text into `folder`. A folder that was made from the same text is used as it is.
    Text in several directions gets a folder for each in it.

    `data` is the address of the text, with the `settings` that differ from the defaults, as in `source_language="en"`;
    or both together.

    If the text is prepared data, it is copied. Each line of a split is a JSON list of source and target. Separate dev
    and test sets keep every pair in order, so that other files stay aligned with them; their faults are only counted.

    Raises:
        DataError: the text cannot be read or used, or `folder` was made from other text.
        DiskFull: the disk is full; the new folder is removed.
    """
    if isinstance(data, DataSettings):
        chosen = data.but(**settings)
    else:
        chosen = choose(DataSettings, "data", (), path=data, **settings)
    with open_text(chosen, as_progress(progress)) as text:
        return _prepare(text, Path(folder))


def prepare_labelled(
    settings: DataSettings, task: Task, folder: Path | str, progress: Progress | bool = True
) -> LabelledReport:
    """Prepare texts with a label each, or with a label for each word. Separate dev and test sets keep every example;
    without them, some are held out of the training text.

    Raises:
        DataError: the text cannot be read or is not labelled, or `folder` was made from other text.
        DiskFull: the disk is full; the new folder is removed.
    """
    return _prepare(LabelledText.read(settings, task, as_progress(progress)), Path(folder))


def prepare_text(settings: DataSettings, folder: Path | str, progress: Progress | bool = True) -> TextReport:
    """Prepare running text, and hold out its end for dev and test unless they are separate.

    Raises:
        DataError: the text cannot be read or is too short, or `folder` was made from other text.
        DiskFull: the disk is full; the new folder is removed.
    """
    return _prepare(RunningText(settings, as_progress(progress)), Path(folder))


def is_made_from(folder: Path, settings: DataSettings, task: str) -> bool:
    """Return True if a folder was prepared from the text that `settings` name, by the same rules."""
    with ExitStack() as stack:
        if task == "translation":
            text: Text = stack.enter_context(open_text(settings, silent))
        elif task == "classify" or task == "tag":
            text = LabelledText.read(settings, task, silent)
        else:
            text = RunningText(settings, silent)
        return text.read_report(folder).identity == text.identity


def _prepare(text: Text, folder: Path) -> Any:
    if (folder / REPORT).exists():
        return _reused(text, folder)
    check_new_folder(folder)
    with _no_parents_left(folder), new_folder(folder) as aside:
        report = text.fill(aside)
        write_json(aside / REPORT, report.model_dump(mode="json"))
    announce(report)
    return report


def announce(report: DataReport | DirectionsReport | LabelledReport | TextReport) -> None:
    """Log the warnings of a report."""
    for warning in report.warnings:
        log.warning("%s", warning)


def _reused(text: Text, folder: Path) -> Any:
    """Return the report of an existing folder; raise DataError if it was made from other text, or is damaged."""
    report: Any = text.read_report(folder)
    if report.identity != text.identity:
        is_alike = isinstance(report, DirectionsReport) == isinstance(text, DirectionsText)
        changes = "; ".join(text.changes(report)) if is_alike else "the directions are others"
        why = f" ({changes})" if changes else ""
        raise DataError(f"{folder} was prepared from other text or settings{why}; name another folder")
    parts = direction_folders(folder).values() if isinstance(text, DirectionsText) else [folder]
    for part in parts:
        for name, split in (read_report(part) if isinstance(text, DirectionsText) else report).splits.items():
            path = text_of(part, name) if isinstance(report, TextReport) else split_of(part, name)
            if not path.is_file() or sha256(path) != split.sha256:
                raise DataError(f"{path} is missing or was changed; remove {folder} and prepare the text again")
    log.info("%s holds this text already", folder)
    return report


@contextmanager
def _no_parents_left(folder: Path) -> Iterator[None]:
    """Remove the folders that were made to hold this one if the text is refused."""
    missing = [parent for parent in folder.parents if not parent.exists()]
    try:
        yield
    except DataError:
        for parent in missing:
            with suppress(OSError):  # it holds other files
                parent.rmdir()
        raise
