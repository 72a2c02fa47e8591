"""How the training text of a run is written."""

import shutil
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.files import new_folder
from dragoman.run_folder import RunFolder
from dragoman.store.description import find_model, read_adapter, read_config, read_conventions, verify_model
from dragoman.store.manifest import write_manifest
from dragoman.text.conventions import PairConventions
from dragoman.text.prepared import evenly_spaced, read_split
from dragoman.text.report import read_report

SAMPLE = 300_000
"""Training pairs that tell how a text is written, spread over all of them."""


def learn_conventions(data: Path, pairs: int) -> PairConventions:
    """Those of the training text in a folder of prepared data, which has so many pairs."""
    return PairConventions.learn(evenly_spaced(read_split(data, "train"), pairs, SAMPLE))


def conventions(model: Path | str) -> PairConventions:
    """How the training text of a run or a model folder is written. The models of a finished run that was trained before
    they kept it get it now.

    Raises:
        CheckpointError: there is no model.
        ConfigError: it does not translate, or neither it nor its run has the text any more.
    """
    folder, run = find_model(model), RunFolder(model)
    if read_config(folder).languages is None:
        raise ConfigError(f"{model} does not translate, so nothing is kept of how its text is written")
    if (kept := read_conventions(folder)) is not None:
        return kept
    if not run.split("train").is_file() or read_adapter(folder) is not None:
        raise ConfigError(f"{model} does not say how its training text is written, and is no run that has the text")
    learnt = learn_conventions(run.data, read_report(run.data).splits["train"].pairs)
    for trained in (run.best, run.final):
        if trained.is_dir():
            verify_model(trained)
            with new_folder(trained, replace=True) as aside:
                shutil.copytree(trained, aside, dirs_exist_ok=True)
                learnt.save(aside)
                write_manifest(aside)
    return learnt
