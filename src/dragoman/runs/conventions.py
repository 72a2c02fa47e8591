"""How the training text of a run is written: learnt once, and kept in the run's folder and in its models."""

import shutil
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.files import new_folder
from dragoman.run_folder import RunFolder
from dragoman.store.description import find_model, read_config, verify_model
from dragoman.store.manifest import write_manifest
from dragoman.text.conventions import PairConventions
from dragoman.text.prepared import evenly_spaced, read_split
from dragoman.text.report import read_report

SAMPLE = 50_000
"""Training pairs that tell how a text is written, spread over all of them."""


def find_conventions(run: RunFolder, pairs: int) -> PairConventions:
    """Those of a run's training text, which has so many pairs: kept from before, or learnt now and kept."""
    if (kept := PairConventions.load(run.path)) is not None:
        return kept
    conventions = PairConventions.learn(evenly_spaced(read_split(run.data, "train"), pairs, SAMPLE))
    conventions.save(run.path)
    return conventions


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
    if (kept := PairConventions.load(folder)) is not None:
        return kept
    if not run.split("train").is_file():
        raise ConfigError(f"{model} does not say how its training text is written, and is no run that has the text")
    learnt = find_conventions(run, read_report(run.data).splits["train"].pairs)
    for trained in (run.best, run.final):
        if trained.is_dir():
            verify_model(trained)
            with new_folder(trained, replace=True) as aside:
                shutil.copytree(trained, aside, dirs_exist_ok=True)
                learnt.save(aside)
                write_manifest(aside)
    return learnt
