"""The run of `make demo`, which several pages look at: trained once, then found again."""

import logging
import os
from functools import cache
from pathlib import Path

import dragoman

SHORT = os.environ.get("GUIDE_SHORT")
"""The folder for trainings that are cut short, as tests ask for: everything runs, and nothing is learned."""
RUNS = Path(os.path.relpath(SHORT or Path(__file__).parent.parent / "_build" / "runs"))
"""Where the pages keep what they train."""

if SHORT:
    logging.getLogger("dragoman").setLevel(logging.ERROR)  # the warning that so short a run learnt nothing is no news


def steps(full: int) -> str:
    """The setting for a training of so many steps, or of a few where trainings are cut short."""
    return f"train.steps={min(full, 30) if SHORT else full}"


def run() -> Path:
    """The folder of the demo's run. The first call trains it, in about five minutes on two cores."""
    return dragoman.train("phrasebook", runs=RUNS, overrides=[steps(2_000)], progress=False).folder


@cache
def translator() -> dragoman.Translator:
    """The demo's model, ready to translate."""
    return dragoman.Translator.load(run())
