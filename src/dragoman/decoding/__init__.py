"""Log-probabilities in, hypotheses out; ids only.

Read `beam` for the search of one request in plain Python, `engine` and `company` for that of many, `stepper` for what
it needs of a model. Knows nothing of text or of training.
"""

from typing import TYPE_CHECKING

from dragoman import lazy_names

if TYPE_CHECKING:
    from dragoman.decoding.beam import Beam as Beam
    from dragoman.decoding.engine import Engine as Engine
    from dragoman.decoding.engine import Found as Found
    from dragoman.decoding.hypothesis import Candidate as Candidate
    from dragoman.decoding.hypothesis import Hypothesis as Hypothesis
    from dragoman.decoding.hypothesis import SearchObserver as SearchObserver
    from dragoman.decoding.model_stepper import ModelStepper as ModelStepper
    from dragoman.decoding.model_stepper import TensorStep as TensorStep
    from dragoman.decoding.request import Request as Request
    from dragoman.decoding.sampling import Sampling as Sampling
    from dragoman.decoding.scoring import score as score
    from dragoman.decoding.steppers import Best as Best
    from dragoman.decoding.steppers import Step as Step
    from dragoman.decoding.steppers import Stepper as Stepper
    from dragoman.decoding.steppers import TextStepper as TextStepper
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "beam": ["Beam"],
            "engine": ["Engine", "Found"],
            "hypothesis": ["Hypothesis", "Candidate", "SearchObserver"],
            "request": ["Request"],
            "sampling": ["Sampling"],
            "scoring": ["score"],
            "model_stepper": ["ModelStepper", "TensorStep"],
            "steppers": ["Best", "Step", "Stepper", "TextStepper"],
        },
    )
