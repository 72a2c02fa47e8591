"""What several pages look at: the finished model that the package ships, and a run like that of `make demo`.

Sentences about a translation, a weight or an attention are about `MODEL`, which is the same on every machine.
Sentences about data, curves and checkpoints are about `run()`, which is trained by a fixed number of steps.
"""

import logging
import os
from functools import cache
from pathlib import Path

import dragoman

MODEL = Path(dragoman.__file__).parent / "inference" / "phrasebook"
"""The folder of the finished model, from English into Italian: the one that `dragoman demo` translates with at once."""
SHORT = "GUIDE_SHORT" in os.environ
"""Whether trainings are cut short, as tests ask for: everything runs, and nothing is learned."""
RUNS = Path(os.path.relpath(os.environ.get("GUIDE_RUNS", "runs")))
"""Where the pages keep what they train."""

if SHORT:
    logging.getLogger("dragoman").setLevel(logging.ERROR)  # the warning that so short a run learnt nothing is no news


@cache
def translator() -> dragoman.Translator:
    """The finished model, ready to translate; in float32, so that machines agree."""
    return dragoman.Translator.load(MODEL, precision="float32")


def run() -> Path:
    """The folder of the run. The first call trains it, in about five minutes on two cores."""
    return dragoman.train("phrasebook", runs=RUNS, overrides=[steps(2_000)], progress=False).folder


def steps(full: int) -> str:
    """The setting for a training of so many steps, or of a few where trainings are cut short."""
    return f"train.steps={min(full, 30) if SHORT else full}"


def holds(claim: bool, what: str = "") -> None:
    """Asserts what a sentence of the page says of a training. Where trainings are cut short, it need not be true."""
    assert SHORT or claim, what
