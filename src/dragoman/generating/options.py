"""What can be asked of a language model, checked as a whole before any work is done."""

from typing import TYPE_CHECKING

import pydantic

from dragoman.config import Settings

if TYPE_CHECKING:
    from dragoman.decoding.sampling import Sampling


class GenerateOptions(Settings):
    """How a language model goes on with a text."""

    tokens: int = pydantic.Field(default=200, ge=1, le=1_000_000)
    """Most tokens that are written, at least 1."""
    temperature: float = pydantic.Field(default=0.8, ge=0.0, le=100.0)
    """Log-probabilities are divided by it before a token is drawn: 1 draws by the model's own probabilities, less
    favours likely tokens, and 0 always takes the likeliest."""
    top_k: int | None = pydantic.Field(default=None, ge=1, le=1_000_000)
    """Draws only from so many of the likeliest tokens, at least 1; left out: from all."""
    top_p: float | None = pydantic.Field(default=None, gt=0.0, le=1.0)
    """Draws only from the fewest likeliest tokens whose probabilities reach this sum, above 0, at most 1."""
    seed: int = pydantic.Field(default=1, ge=0, lt=2**63)
    """The same seed gives the same text, another seed another."""
    samples: int = pydantic.Field(default=1, ge=1, le=10_000)
    """Texts written for each prompt, at least 1."""
    stop: tuple[str, ...] = ()
    """Texts at which writing ends; they are not part of what is written."""
    context: int | None = pydantic.Field(default=None, ge=2, le=1_000_000)
    """Most tokens of the text so far that the model sees, at least 2: as many as it was trained on, unless given."""

    @property
    def sampling(self) -> "Sampling | None":
        """How tokens are drawn; None if always the likeliest is taken."""
        if self.temperature == 0:
            return None
        from dragoman.decoding.sampling import Sampling  # here, because it loads torch, which settings do not need

        return Sampling(self.temperature, self.top_k, self.top_p or 1.0, self.seed)

    @pydantic.model_validator(mode="after")
    def _refuse_contradictions(self) -> "GenerateOptions":
        problems = []
        if not all(self.stop):
            problems.append("generate.stop holds an empty text, which would end every text; leave it out")
        if self.temperature == 0 and self.samples > 1:
            problems.append(
                f"generate.temperature = 0 writes the same text each time, but generate.samples is {self.samples}; "
                "raise the temperature, or ask for one sample"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self
