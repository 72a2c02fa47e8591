"""Options of translation and of text generation. Contradictions are refused before any work is done."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import pydantic

from dragoman.config import Settings
from dragoman.errors import DecodeError

if TYPE_CHECKING:
    from dragoman.decoding.sampling import Sampling

DRAWS = ("temperature", "top_k", "top_p", "risk_samples")
"""Options that replace the search by sampling."""


class SearchOptions(Settings):
    """Options of the search and of the translations; `beam_size = 1` is greedy search.

    The defaults are those of Vaswani et al. (2017, section 6.1), except that their longest output has 50 tokens more
    than the source.
    """

    beam_size: int = pydantic.Field(default=4, ge=1, le=256)
    """Hypotheses kept at each step, 1 to 256."""
    n_best: int = pydantic.Field(default=1, ge=1, le=256)
    """Translations returned for each text: the best of a search, 1 to beam_size; with risk_samples, the best that
    differ; else samples."""
    length_penalty: float = pydantic.Field(default=0.6, ge=0.0, le=5.0)
    """Exponent of the length penalty, 0 (none) to 5; a higher one favours longer translations."""
    early_stopping: bool = True
    """True to end the search, as usual, when beam_size hypotheses are finished. False to continue until no unfinished
    hypothesis can still win."""
    minimum_length: int = pydantic.Field(default=0, ge=0, le=1_000)
    """Fewest tokens of a translation, before its end symbol."""
    length_ratio: float = pydantic.Field(default=2.0, ge=0.0, le=1_000.0)
    """Longest output in tokens: length_ratio * source tokens + length_extra."""
    length_extra: int = pydantic.Field(default=20, ge=1, le=1_000_000)
    """Tokens added to the longest output, at least 1; see length_ratio."""
    no_repeat_ngram: int | None = pydantic.Field(default=None, ge=1, le=1_000_000)
    """No run of this many tokens occurs twice in a translation. Left out: no restriction."""
    banned_words: tuple[str, ...] = pydantic.Field(default=(), max_length=1_000)
    """Words and phrases that no translation contains as whole words, however they are split into tokens. Case matters:
    "Sea" is another word than "sea". At most 1,000."""
    terms: tuple[tuple[str, ...], ...] = pydantic.Field(default=(), max_length=100_000)
    """Words and phrases with a fixed translation: a source term and one or more forms of its translation. A form occurs
    in the translation for every occurrence of the term. A term without forms is copied."""
    temperature: float | None = pydantic.Field(default=None, gt=0.0, le=100.0)
    """Samples translations instead of searching for the best; log-probabilities are divided by this number, above 0.
    Left out: 1 with top_k, top_p or risk_samples, else a search. Samples have no beam."""
    top_k: int | None = pydantic.Field(default=None, ge=1, le=1_000_000)
    """Samples only from this many most likely tokens, at least 1."""
    top_p: float | None = pydantic.Field(default=None, gt=0.0, le=1.0)
    """Samples only from the most likely tokens whose probabilities reach this sum, above 0, at most 1."""
    risk_samples: int | None = pydantic.Field(default=None, ge=2, le=1_000)
    """Minimum Bayes risk (Eikema and Aziz 2020): draws this many samples of each sentence, 2 to 1,000, and returns the
    one most similar to all of them by chrF. Their temperature is 1 by default; top_k and top_p apply too."""
    seed: int = pydantic.Field(default=1, ge=0, lt=2**63)
    """Seed of the samples."""
    source_language: str | None = pydantic.Field(default=None, max_length=60)
    """Source language, for a model with several."""
    target_language: str | None = pydantic.Field(default=None, max_length=60)
    """Target language, for a model with several. A text may begin with a tag, such as >>fra<<, which takes precedence.
    Left out: the only one, or every text has a tag."""
    pivot: str | None = pydantic.Field(default=None, max_length=60)
    """Language through which a model with several translates in a direction that it was not trained in. "none": it
    translates directly, although it never learned to. Left out: such a direction is refused."""
    prefix: str = pydantic.Field(default="", max_length=2_000)
    """Text that every translation begins with."""
    align: bool = False
    """Aligns the words of a translation with those of the source, by attention. This takes one more pass of the model,
    in PyTorch."""
    allow_unknown: bool = False
    """Allows the unknown symbol in translations."""
    split: Literal["sentence", "long", "never"] = "sentence"
    """Unit of translation. "sentence": every sentence of a line; otherwise, models trained on single sentences omit
    text. "long": a line, or its sentences if it is longer than max_source_tokens. "never": a line; a longer one is
    refused."""
    doubtful_below: float | None = pydantic.Field(default=None, le=0.0)
    """A translation is flagged doubtful if the mean log-probability of the tokens of one of its sentences is below this
    number, at most 0. Training measures it on held-out text. Left out: -2."""
    raw: bool = False
    """True if the model reads texts exactly as typed. False to adapt quotes, spaces and capitals to the training text,
    remove characters around sentences, and undo all of this in the translation."""
    protect: tuple[str, ...] = pydantic.Field(default=(), max_length=100)
    """Regular expressions for text that is copied unchanged into the translation, such as addresses and variables; at
    most 100."""
    abbreviations: tuple[str, ...] = ()
    """Additional abbreviations, such as "Abt.", after which a sentence does not end."""
    max_source_tokens: int = pydantic.Field(default=200, ge=8, le=1_000_000)
    """Longest source, at least 8 tokens; limited by the model's positions."""
    batch_tokens: int = pydantic.Field(default=4096, ge=1, le=10**9)
    """Maximum size of a batch: sentences times beam_size times the tokens of the longest source. A single sentence is
    never too large. A GPU takes 32 times as much, because many rows cost it little more time than a few."""
    batch_invariant: bool = False
    """Makes translations identical, to the last bit, in any batch. The compiled decoder always does. PyTorch then
    translates sentence by sentence on one thread, which takes several times as long."""

    @property
    def sampling(self) -> "Sampling | None":
        """Settings of sampling; None for a search."""
        if not self._draws:
            return None
        from dragoman.decoding.sampling import Sampling  # here, because options are read without numpy

        return Sampling(self.temperature or 1.0, self.top_k, self.top_p or 1.0, self.seed)

    @property
    def samples(self) -> int:
        """Number of samples of each sentence, if it is sampled."""
        return self.risk_samples or self.n_best

    def searching(self, **changes: Any) -> "SearchOptions":
        """Return options without sampling, and with these changes."""
        return self.but(**{**dict.fromkeys(DRAWS), **changes})

    @property
    def _draws(self) -> bool:
        return any(getattr(self, name) is not None for name in DRAWS)

    @pydantic.model_validator(mode="after")
    def _refuse_contradictions(self) -> "SearchOptions":
        from dragoman.surface.protected import spans_matching  # here, because help reads settings without tokenizers
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
        if not all(re.search(r"[^\s\0]", phrase) for phrase in self.banned_words):
            problems.append("decode.banned_words must hold words, but one of them is blank")
        if self.protect and (self.raw or self.prefix):
            problems.append("decode.protect has no effect with decode.raw or decode.prefix; leave one of them out")
        try:
            spans_matching(self.protect, "")
        except DecodeError as error:
            problems.append(str(error))
        problems += _problems_of(self.terms)[:3]
        if self.terms and self._draws:
            problems.append("decode.terms need a search; leave them out, or temperature, top_k, top_p and risk_samples")
        if problems:
            raise ValueError("; ".join(problems))
        return self


def _problems_of(terms: Sequence[tuple[str, ...]]) -> list[str]:
    """Describe the errors in terms."""
    forms_of: dict[str, list[str]] = {}
    problems = []
    for source, *forms in (tuple(map(str.strip, term)) or ("",) for term in terms):
        if not source:
            problems.append("decode.terms must not be empty, but one has no source term")
        elif not all(forms):
            problems.append(f"decode.terms gives {source!r} an empty form")
        elif forms_of.setdefault(source, forms) != forms:
            problems.append(f"decode.terms gives {source!r} twice with different forms; give all of its forms at once")
    return problems


class GenerateOptions(Settings):
    """Options of continuing a text with a language model."""

    tokens: int = pydantic.Field(default=200, ge=1, le=1_000_000)
    """Maximum tokens to write, at least 1."""
    temperature: float = pydantic.Field(default=0.8, ge=0.0, le=100.0)
    """Log-probabilities are divided by this number: 1 samples with the model's own probabilities, less favours likely
    tokens, and 0 always takes the most likely one."""
    top_k: int | None = pydantic.Field(default=None, ge=1, le=1_000_000)
    """Samples only from this many most likely tokens, at least 1. Left out: from all."""
    top_p: float | None = pydantic.Field(default=None, gt=0.0, le=1.0)
    """Samples only from the most likely tokens whose probabilities reach this sum, above 0, at most 1."""
    seed: int = pydantic.Field(default=1, ge=0, lt=2**63)
    """Seed of the samples; the same seed gives the same text."""
    samples: int = pydantic.Field(default=1, ge=1, le=10_000)
    """Texts written for each prompt, at least 1."""
    stop: tuple[str, ...] = ()
    """Texts that end the writing; they are not part of the result."""
    context: int | None = pydantic.Field(default=None, ge=2, le=1_000_000)
    """Maximum tokens of the text so far that the model sees, at least 2. Left out: as in training."""

    @property
    def sampling(self) -> "Sampling | None":
        """Settings of sampling; None to take always the most likely token."""
        if self.temperature == 0:
            return None
        from dragoman.decoding.sampling import Sampling  # here, because options are read without numpy

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
