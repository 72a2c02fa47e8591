"""What a run chooses where nothing was asked: one small pure function per choice, of the recipe so far and the facts.

A choice is made once the facts that it needs are known; until then it stays open. Choices for one task stand in a file
of their own (`translation_choices.py` chooses sizes by the number of pairs), and those that follow from the limit of
training in `steps.py`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dragoman.config import check
from dragoman.errors import ConfigError
from dragoman.inference.options import SearchOptions
from dragoman.model import ModelConfig
from dragoman.runs.recipe import Recipe
from dragoman.tokenizing.training import TokenizerSettings

AUTO = "auto"
"""The value by which a setting is left to the run although it is named."""
WIDEST_FOR_MUON = 192
"""Muon makes a step of width 128 13 % longer, and one of width 256 40 %, which does not pay. Widths in between were not
compared.
"""
CHANGEABLE = {"dropout", "attention_dropout", "activation_dropout", "pooling"}
"""Settings of a finished model that a run which starts from it may change."""


class Prepared(NamedTuple):
    """What prepared data says of itself."""

    source_language: str
    target_language: str
    rules: dict[str, Any]
    """The settings of `[data.checks]` by which it was checked."""


class Start(NamedTuple):
    """The finished model that fine-tuning starts from."""

    model: ModelConfig
    joint: bool
    """Whether both sides share one vocabulary."""
    decode: Mapping[str, Any] = {}
    """Its search options, if the run trains it for the same task."""


class Precision(NamedTuple):
    """What this machine computes in, and why in words."""

    value: str
    reason: str


class Vocabularies(NamedTuple):
    """How many tokens the tokenizers have."""

    source: int
    target: int
    joint: bool
    """Whether both sides share one vocabulary."""
    labels: int | None = None
    """How many labels the data has; None where nothing is labelled."""


class Seconds(NamedTuple):
    """How long a step and a validation take on this machine; 0 for a validation that there is not."""

    step: float
    validation: float


class TextFacts(NamedTuple):
    """How much text there is to train on, in the units of its task."""

    pairs: int = 0
    """Of translation."""
    several_sentences: float = 0.0
    """Share of the training lines that hold several sentences."""
    characters: int = 0
    """Of running text."""
    texts: int = 0
    """That have labels, or whose words have."""
    labels: tuple[int, ...] = ()
    """How often each label occurs."""


@dataclass(frozen=True)
class Facts:
    """What is known when settings are chosen. A fact that is None is not known yet."""

    processes: int = 1
    """How many train together."""
    prepared: Prepared | None = None
    start: Start | None = None
    text: TextFacts | None = None
    """How much text there is to train on."""
    precision: Precision | None = None
    vocabularies: Vocabularies | None = None
    batch_parts: int | None = None
    """In how many batches a step fits in memory; tried where `batches.batch_tokens` is "auto"."""
    batches: int | None = None
    """Batches in as many epochs as were asked for."""
    seconds: Seconds | None = None
    continued_from: int | None = None
    """The step at which the run was finished, if it is trained on."""


class Choice(NamedTuple):
    """The value that a run chose for a setting."""

    key: str
    """Dotted, as in `train.steps`."""
    value: Any
    reason: str | None = None
    """In words, for the recipe; None where there is nothing to explain."""
    replaces: bool = False
    """Whether it takes the place of what was asked, which it makes exact: steps for minutes, a number for "auto"."""


Choices = Iterator[Choice]


def keep_start(_recipe: Recipe, facts: Facts) -> Choices:
    """Architecture, vocabularies and search options are those of the model that fine-tuning starts from."""
    if facts.start is not None:
        for group, settings in _kept(facts.start).items():
            for name, value in settings.items():
                yield Choice(f"{group}.{name}", value)
        usual = SearchOptions().model_dump(mode="json")
        for name, value in facts.start.decode.items():
            yield Choice(f"decode.{name}", value, "" if value == usual.get(name) else "as the model to start from")


def refuse_other_start(asked: Mapping[str, Any], start: Start) -> None:
    """Refuses settings that would change the model that fine-tuning starts from.

    Raises:
        ConfigError: one is asked for.
    """
    for group, kept in _kept(start).items():
        for name, value in asked.get(group, {}).items():
            if name not in CHANGEABLE and kept.get(name) != value:
                what = "architecture" if group == "model" else group
                raise ConfigError(f"fine-tuning keeps the model's {what}; {group}.{name} cannot be set")


def _kept(start: Start) -> dict[str, dict[str, Any]]:
    tokenizer = check({"joint": start.joint}, "tokenizer", TokenizerSettings)
    groups = {"model": start.model, "tokenizer": tokenizer}
    return {group: settings.model_dump(mode="json", exclude_none=True) for group, settings in groups.items()}


def share_steps(recipe: Recipe, facts: Facts) -> Choices:
    """A batch of every step for each process."""
    if facts.processes > 1:
        if recipe.batches.batch_tokens == AUTO:
            raise ConfigError("batches.batch_tokens = 'auto' tries what fits in one process; give several a number")
        yield Choice("train.accumulate", facts.processes, "a batch of every step for each process")


def refuse_idle_processes(recipe: Recipe, processes: int) -> None:
    """Refuses a step that leaves processes without work.

    Raises:
        ConfigError: it has fewer batches than there are processes.
    """
    if recipe.train.accumulate < processes:
        raise ConfigError(
            f"train.accumulate is {recipe.train.accumulate}, so {processes} processes cannot share a step's batches; "
            f"use train.accumulate={processes} or more, with smaller batches for the same step, or fewer processes"
        )


def compute_in(_recipe: Recipe, facts: Facts) -> Choices:
    if facts.precision is not None:
        yield Choice("train.precision", *facts.precision, replaces=True)


def choose_optimiser(recipe: Recipe, facts: Facts) -> Choices:
    """A rate that stays high and falls at the end, and in narrow models Muon.

    Both learnt most in the same minutes from the 29,000 pairs of Multi30k; on the 310,000 of Tatoeba schedules were not
    compared over the same steps (LOG.md). Fine-tuning and models of the paper's kind keep AdamW and a rate that falls
    from the first step.
    """
    is_of_the_paper = recipe.model.norm_position == "post" or recipe.train.schedule == "noam"
    if facts.vocabularies is None or recipe.start is not None or is_of_the_paper:
        return
    yield Choice("train.schedule", "wsd", "learnt most in the same minutes from 29,000 pairs")
    if recipe.model.d_model <= WIDEST_FOR_MUON:
        reason = "learnt more than adamw in the same minutes at width 128, not at 256"
        yield Choice("train.optimiser", "muon", reason)


def fit_batches(recipe: Recipe, facts: Facts) -> Choices:
    """A step's tokens in as many batches as memory asks for."""
    if facts.batch_parts is None or recipe.batches.batch_tokens == AUTO:
        return
    tokens = recipe.batches.batch_tokens
    smaller = -(-tokens // facts.batch_parts)
    yield Choice("batches.batch_tokens", smaller, "auto: tried, and fits in memory", replaces=True)
    yield Choice("train.accumulate", facts.batch_parts, f"for {tokens:,} tokens a step", replaces=True)
