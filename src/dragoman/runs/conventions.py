"""How the training text of a run is written."""

import shutil
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


def learn_conventions(data: Path, pairs: int) -> PairConventions:
    """Those of the training text in a folder of prepared data, which has so many pairs."""
    return PairConventions.learn(evenly_spaced(read_split(data, "train"), pairs, SAMPLE))


def complete(run: RunFolder) -> None:
    """Gives the models of a finished translation run the conventions of its text, if an earlier version trained it."""
    for folder in (run.best, run.final):
        if not folder.is_dir() or read_config(folder).languages is None or read_adapter(folder) is not None:
            continue
        if read_conventions(folder) is None and run.split("train").is_file():
            verify_model(folder)
            with new_folder(folder, replace=True) as aside:
                shutil.copytree(folder, aside, dirs_exist_ok=True)
                learn_conventions(run.data, read_report(run.data).splits["train"].pairs).save(aside)
                write_manifest(aside)
