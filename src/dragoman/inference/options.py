"""What can be asked of a translation and of a language model, checked as a whole before any work is done."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import pydantic

from dragoman.config import Settings
from dragoman.errors import DecodeError

if TYPE_CHECKING:
    from dragoman.decoding.sampling import Sampling

DRAWS = ("temperature", "top_k", "top_p", "risk_samples")
"""The settings that draw samples instead of searching."""


class SearchOptions(Settings):
    """How translations are searched for and what is handed back; `beam_size = 1` is greedy search.

    The defaults are those of Vaswani et al. (2017, section 6.1), except that their longest output is the source's
    length plus 50.
    """

    beam_size: int = pydantic.Field(default=4, ge=1, le=256)
    """Hypotheses kept at each step, 1 to 256."""
    n_best: int = pydantic.Field(default=1, ge=1, le=256)
    """Translations handed back for each text: the best of a search, 1 to beam_size; of risk_samples, the best of those
    that differ; or so many samples."""
    length_penalty: float = pydantic.Field(default=0.6, ge=0.0, le=5.0)
    """Exponent of the length penalty, 0 (none) to 5; a higher one favours longer translations."""
    early_stopping: bool = True
    """Whether a search ends, as usual, when as many hypotheses have ended as the beam is wide. Else it goes on until
    no unfinished hypothesis can still win."""
    minimum_length: int = pydantic.Field(default=0, ge=0, le=1_000)
    """Fewest tokens of a translation, before its end symbol."""
    length_ratio: float = pydantic.Field(default=2.0, ge=0.0, le=1_000.0)
    """Longest output in tokens: length_ratio * source tokens + length_extra."""
    length_extra: int = pydantic.Field(default=20, ge=1, le=1_000_000)
    """Tokens added to the longest output, at least 1; see length_ratio."""
    no_repeat_ngram: int | None = pydantic.Field(default=None, ge=1, le=1_000_000)
    """No run of this many tokens occurs twice in a translation; left out: any may."""
    banned_words: tuple[str, ...] = pydantic.Field(default=(), max_length=1_000)
    """Words and phrases that no translation holds as whole words, however its tokens spell them; with their case, so
    that "Sea" is another word than "sea". At most 1,000."""
    terms: tuple[tuple[str, ...], ...] = pydantic.Field(default=(), max_length=100_000)
    """Words and phrases that have a fixed translation: each a source term, and one or several forms, one of which the
    translation holds as often as the source holds the term. A term alone stays as it is."""
    temperature: float | None = pydantic.Field(default=None, gt=0.0, le=100.0)
    """Draws translations by their probabilities instead of searching for the best, and divides log-probabilities by
    this number, above 0. Left out: 1 with top_k, top_p or risk_samples, else a search. Samples have no beam."""
    top_k: int | None = pydantic.Field(default=None, ge=1, le=1_000_000)
    """Draws only from so many of the likeliest tokens, at least 1."""
    top_p: float | None = pydantic.Field(default=None, gt=0.0, le=1.0)
    """Draws only from the fewest likeliest tokens whose probabilities reach this sum, above 0, at most 1."""
    risk_samples: int | None = pydantic.Field(default=None, ge=2, le=1_000)
    """Minimum Bayes risk (Eikema and Aziz 2020): draws so many samples of each sentence, 2 to 1,000, and takes the one
    that is most like all of them by chrF. Samples have temperature 1 unless temperature is given; top_k and top_p apply
    too."""
    seed: int = pydantic.Field(default=1, ge=0, lt=2**63)
    """Another seed draws other samples."""
    target_language: str | None = pydantic.Field(default=None, max_length=60)
    """The language to translate into, for a model that has several: the name in its tag, such as fra of >>fra<<. A text
    may name another by its own tag. Left out: each text names one."""
    prefix: str = pydantic.Field(default="", max_length=2_000)
    """Text that every translation begins with."""
    align: bool = False
    """Whether a translation says which word of the source each of its words renders, read from attention. It takes one
    more pass of the model, in PyTorch."""
    allow_unknown: bool = False
    """Whether a translation may hold the unknown symbol."""
    split: Literal["sentence", "long", "never"] = "sentence"
    """What is translated at a time. "sentence": each sentence of a line; models trained on single sentences leave out
    the others. "long": a line, or its sentences where it is longer than max_source_tokens. "never": a line; a longer
    one is refused."""
    doubtful_below: float | None = pydantic.Field(default=None, le=0.0)
    """A translation is flagged doubtful if the mean log-probability of its tokens, or of those of one of its sentences,
    is below this number, at most 0. Training measures it on held-out text. Left out: -2."""
    raw: bool = False
    """Whether the model reads each text as it was typed. Else it reads quotes, spaces and capitals as its training text
    has them, without what stands around a sentence, and the translation gets back what was typed."""
    protect: tuple[str, ...] = pydantic.Field(default=(), max_length=100)
    """Regular expressions. What they find in a text stands in its translation as it is, like addresses and variables;
    at most 100."""
    abbreviations: tuple[str, ...] = ()
    """Abbreviations that end no sentence where one is cut, beside those that are known, such as "Abt."."""
    max_source_tokens: int = pydantic.Field(default=200, ge=8, le=1_000_000)
    """Longest source that the model is given, at least 8 tokens; fewer where its positions end before."""
    batch_tokens: int = pydantic.Field(default=4096, ge=1, le=10**9)
    """Most tokens under way: sentences times beam_size times the tokens of the longest source. One always fits."""
    batch_invariant: bool = False
    """Whether a translation is the same, to the last bit, in any batch. In the compiled decoder it always is. PyTorch
    then translates sentence by sentence on one thread, which takes several times as long."""

    @property
    def sampling(self) -> "Sampling | None":
        """How tokens are drawn; None for a search."""
        if not self._draws:
            return None
        from dragoman.decoding.sampling import Sampling  # here, because settings are read without numpy

        return Sampling(self.temperature or 1.0, self.top_k, self.top_p or 1.0, self.seed)

    @property
    def samples(self) -> int:
        """How many samples are drawn of each sentence, if any is."""
        return self.risk_samples or self.n_best

    def searching(self, **changes: Any) -> "SearchOptions":
        """The same without samples, and with these changes."""
        return self.but(**{**dict.fromkeys(DRAWS), **changes})

    @property
    def _draws(self) -> bool:
        return any(getattr(self, name) is not None for name in DRAWS)

    @pydantic.model_validator(mode="after")
    def _refuse_contradictions(self) -> "SearchOptions":
        from dragoman.surface.protected import found_by  # here, because help reads settings without tokenizers
        from dragoman.surface.sentences import is_blank

        problems = []
        if self.risk_samples is not None and self.n_best > self.risk_samples:
            problems.append(
                f"decode.n_best must be at most decode.risk_samples, but is {self.n_best} "
                f"of {self.risk_samples} samples"
            )
        if self.n_best > self.beam_size and not self._draws:
            problems.append(
                f"decode.n_best must be at most decode.beam_size, but is {self.n_best} with a beam of {self.beam_size}"
            )
        if self.prefix and is_blank(self.prefix):
            problems.append("decode.prefix must hold more than spaces; leave it out for none")
        if not all(re.search(r"[^\s\0]", each) for each in self.banned_words):
            problems.append("decode.banned_words must hold words, but one of them is blank")
        if self.protect and (self.raw or self.prefix):
            problems.append("decode.protect has no effect with decode.raw or decode.prefix; leave one of them out")
        try:
            found_by(self.protect, "")
        except DecodeError as error:
            problems.append(str(error))
        problems += _problems_of(self.terms)[:3]
        if self.terms and self._draws:
            problems.append("decode.terms need a search; leave them out, or temperature, top_k, top_p and risk_samples")
        if problems:
            raise ValueError("; ".join(problems))
        return self


def _problems_of(terms: Sequence[tuple[str, ...]]) -> list[str]:
    """Why these are no terms."""
    forms: dict[str, tuple[str, ...]] = {}
    problems = []
    for source, *others in (tuple(map(str.strip, term)) or ("",) for term in terms):
        if not source:
            problems.append("decode.terms must not be empty, but one has no source term")
        elif not all(others):
            problems.append(f"decode.terms gives {source!r} an empty form")
        elif forms.setdefault(source.casefold(), tuple(others)) != tuple(others):
            problems.append(f"decode.terms gives {source!r} twice with different forms; give all of its forms at once")
    return problems


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
