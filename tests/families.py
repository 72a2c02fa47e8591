"""One trained run a family: trained once for all tests of a session, and copied for every test that needs one."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

Family = Callable[[Path], Path]
"""Trains in a folder, and returns the run."""


def translation(folder: Path) -> Path:
    from small_runs import train_small

    return train_small(folder).folder


def two_verbs(folder: Path) -> Path:
    """A translation of two of the four verbs; the others are there to be learnt later."""
    from small_runs import some_pairs, train_small, write_corpus

    write_corpus(folder / "corpus.tsv", some_pairs(verbs=["sees", "seeks"]))
    return train_small(folder).folder


def classify(folder: Path) -> Path:
    from small_labelled import LEARNS, train

    return train("classify", folder, *LEARNS).folder


def fill(folder: Path) -> Path:
    from small_labelled import LEARNS, train

    return train("fill", folder, *LEARNS).folder


def language_model(folder: Path) -> Path:
    from small_rhyme import train, write_rhyme

    return train(write_rhyme(folder), folder / "runs").folder


FAMILIES: dict[str, Family] = {
    family.__name__: family for family in (translation, two_verbs, classify, fill, language_model)
}


class Trained(Protocol):
    def __call__(self, family: str, folder: Path) -> Path:
        """Copies into a folder all that was there when a run of this family had ended, and returns the run."""
        ...


def trained_in(factory: pytest.TempPathFactory) -> Trained:
    base = factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trained"

    def copy(family: str, folder: Path) -> Path:
        shared.mkdir(exist_ok=True)
        original, done = shared / family, shared / f"{family}.txt"
        with (shared / f"{family}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one worker trains, the others wait
            if not done.exists():
                shutil.rmtree(original, ignore_errors=True)
                done.write_text(FAMILIES[family](original).relative_to(original).as_posix())
        shutil.copytree(original, folder, dirs_exist_ok=True)
        return folder / done.read_text()

    return copy
