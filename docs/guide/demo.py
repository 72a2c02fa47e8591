"""The model and the run that several pages use: the finished model of the package, and a run like that of `make demo`.

Sentences about a translation, a weight or attention refer to `MODEL`, which is the same on every machine. Sentences
about data, curves and checkpoints refer to `run()`, which is trained for a fixed number of steps.
"""

import logging
import os
from functools import cache
from pathlib import Path

import dragoman

MODEL = Path(dragoman.__file__).parent / "inference" / "phrasebook"
"""The folder of the finished English-Italian model, with which `dragoman demo` translates first."""
SHORT = "GUIDE_SHORT" in os.environ
"""True if trainings are cut short for tests: everything runs, and nothing is learned."""
RUNS = Path(os.path.relpath(os.environ.get("GUIDE_RUNS", "runs")))
"""The folder of the runs that pages train."""

if SHORT:
    logging.getLogger("dragoman").setLevel(logging.ERROR)  # without the warning that so short a run learned nothing


@cache
def translator() -> dragoman.Translator:
    """Load the finished model, ready to translate; in float32, so that machines agree."""
    return dragoman.Translator.load(MODEL, precision="float32")


def run() -> Path:
    """Return the folder of the run. The first call trains it, in about five minutes on two cores."""
    return dragoman.train("phrasebook", runs=RUNS, overrides=[steps(2_000)], progress=False).folder


def steps(full: int) -> str:
    """Return the setting for this number of steps, or for a few if trainings are cut short."""
    return f"train.steps={min(full, 30) if SHORT else full}"


def holds(claim: bool, what: str = "") -> None:
    """Assert a claim of the page about a training. If trainings are cut short, it need not be true."""
    assert SHORT or claim, what
