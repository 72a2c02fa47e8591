"""Log-probabilities in, hypotheses out, and around them text in, text out.

Read `beam` for the arithmetic, `search` for the loop, `stepper` for what it asks of a model; `translator` puts text
around it. Knows nothing of training.
"""

from dragoman.decoding.beam import Hypothesis
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.scoring import score
from dragoman.decoding.search import Search
from dragoman.decoding.stepper import ModelStepper, Step, Stepper
from dragoman.decoding.translation import Flag, Translation
from dragoman.decoding.translator import Translator, translate

__all__ = [
    "Flag",
    "Hypothesis",
    "ModelStepper",
    "Search",
    "SearchOptions",
    "Step",
    "Stepper",
    "Translation",
    "Translator",
    "score",
    "translate",
]
