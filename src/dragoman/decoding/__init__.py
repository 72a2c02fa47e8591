"""Log-probabilities in, hypotheses out; ids only.

Read `beam` for the arithmetic, `search` for the loop, `stepper` for what it asks of a model. Knows nothing of text or
of training.
"""

from typing import TYPE_CHECKING

from dragoman import names_from

if TYPE_CHECKING:
    from dragoman.decoding.beam import Hypothesis as Hypothesis
    from dragoman.decoding.options import SearchOptions as SearchOptions
    from dragoman.decoding.scoring import score as score
    from dragoman.decoding.search import Search as Search
    from dragoman.decoding.stepper import ModelStepper as ModelStepper
    from dragoman.decoding.stepper import Step as Step
    from dragoman.decoding.stepper import Stepper as Stepper
else:
    __getattr__, __dir__, __all__ = names_from(__name__, __file__)
