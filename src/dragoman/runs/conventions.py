"""How the training text of a run is written."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from dragoman.files import new_folder
from dragoman.run_folder import RunFolder
from dragoman.store.description import read_adapter, read_config, read_conventions, verify_model
from dragoman.store.manifest import write_manifest
from dragoman.text.conventions import PairConventions
from dragoman.text.prepared import evenly_spaced, read_split
from dragoman.text.report import read_report

SAMPLE = 300_000
"""Training pairs that tell how a text is written, spread over all of them."""


def learn_conventions(data: Path) -> PairConventions:
    """Those of the training text in a folder of prepared data."""
    report = read_report(data)

    def pairs() -> Iterator[tuple[str, str]]:
        return evenly_spaced(read_split(data, "train"), report.splits["train"].pairs, SAMPLE)

    return PairConventions.learn(pairs()).counted(pairs(), report.source_language)


def complete(run: RunFolder) -> None:
    """Gives the models of a finished translation run the conventions of its text, if an earlier version trained it."""
    for folder in (run.best, run.final):
        if not folder.is_dir() or read_config(folder).languages is None or read_adapter(folder) is not None:
            continue
        if read_conventions(folder) is None and run.split("train").is_file():
            verify_model(folder)
            with new_folder(folder, replace=True) as aside:
                shutil.copytree(folder, aside, dirs_exist_ok=True)
                learn_conventions(run.data).save(aside)
                write_manifest(aside)
