"""Choices that a run makes for settings that were not given, with the reason of each choice.

A recipe is written as a `RecipeDraft`. Each function here makes some choices as soon as their inputs are known: before
any text is read, when the text is known, when the tokenizers are. `steps.py` makes those that depend on the limit of
training. No function looks at anything but the draft and its arguments.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from dragoman.config import check
from dragoman.errors import ConfigError
from dragoman.inference.options import SearchOptions
from dragoman.languages import UNKNOWN_LANGUAGE
from dragoman.model.config import ModelConfig, Size
from dragoman.runs.recipe import FAMILIES, Recipe, refuse_useless
from dragoman.tokenizing.settings import TokenizerSettings

WIDEST_FOR_MUON = 192
"""Muon makes steps of width 128 13 % longer and of width 256 40 %, which does not pay; none between was tried."""
CHANGEABLE_AT_START = {"dropout", "attention_dropout", "activation_dropout", "pooling"}
"""Settings of a finished model that a run which starts from it may change."""
LEARNED_PIECES = ("bpe", "unigram", "byte_bpe")
"""Kinds of tokenizers that learn a vocabulary of the requested size."""
SHARE_OF_WHOLE_LINES = 0.1
"""If more training lines than this share hold several sentences, the model translates whole lines."""


class Sizes(NamedTuple):
    """Settings that are chosen by the amount of text."""

    below: float
    """Limit of the amount, in the unit of the task."""
    vocabulary_size: int
    size: Size
    dropout: float
    batch_tokens: int


UNITS = {
    "translation": "training pairs",
    "language_model": "characters",
    "fill": "characters",
    "classify": "labelled texts",
    "tag": "labelled texts",
}
"""Unit in which each task counts its text."""
_LABELLED = (Sizes(50_000, 4_000, "tiny", 0.3, 1_024), Sizes(math.inf, 8_000, "mini", 0.2, 2_048))
SIZES = {
    "translation": (
        Sizes(20_000, 4_000, "tiny", 0.2, 1_024),
        Sizes(60_000, 8_000, "tiny", 0.2, 2_048),
        Sizes(1_000_000, 8_000, "mini", 0.1, 2_048),
        Sizes(5_000_000, 8_000, "small", 0.1, 2_048),
        Sizes(math.inf, 32_000, "base", 0.1, 8_192),
    ),
    "language_model": (Sizes(5_000_000, 260, "tiny", 0.1, 2_048), Sizes(math.inf, 8_000, "small", 0.1, 4_096)),
    "fill": (Sizes(200_000_000, 8_000, "mini", 0.1, 4_096), Sizes(math.inf, 16_000, "small", 0.1, 8_192)),
    "classify": _LABELLED,
    "tag": _LABELLED,
}
"""Sizes for each task. Of translation, those up to a million pairs learned most in 4 to 30 minutes of two cores, on
29,000 and 310,000 pairs (LOG.md). Of language models only those of a small text were tried, on a million characters; it
is read byte by byte. All others are extrapolated, and so are all of them for GPUs and for hours.
"""
LEAST_ALIGNED, ALIGNMENT_WEIGHT = 10_000, 0.05
"""Least number of pairs for which a head learns alignments, and the weight of its loss. The aligner's error rate is
0.07 from 10,000 pairs of Tatoeba, 0.05 from 310,000; attention that nobody trained to align has 0.17 to 0.24
(benchmarks/alignment.py).
"""
MEASURED_PAIRS = 1_000_000
"""Sizes for more pairs than this are extrapolated."""
SHARE_SPACELESS = 0.1
"""A classifier reads characters if a larger share of its texts is in scripts without spaces."""
VARIATION = {
    "joined": (0.2, "several sentences at once are learned too"),
    "joined_tokens": (128, "the longest row of several pairs"),
    "rough": (0.1, "errors in a source matter less"),
    "protected": (0.2, "names and numbers are copied"),
}
"""Variation of pairs, with the reasons."""
FEW_PAIRS = 5_000
"""Fewer pairs are hardly enough for a model from scratch."""


class Start(NamedTuple):
    """The finished model that a run starts from."""

    model: ModelConfig
    joint: bool
    """True if both sides share one vocabulary."""
    decode: Mapping[str, Any] = {}
    """Its search options, if the run trains it for the same task."""


class TextFacts(NamedTuple):
    """Amount of the training text."""

    amount: int
    """Amount in the unit of the task."""
    several_sentences: float = 0.0
    """Share of the training lines that hold several sentences."""
    spaceless: float = 0.0
    """Share of the labelled texts that are in scripts without spaces between words."""


class VocabularySizes(NamedTuple):
    """Number of tokens of the tokenizers."""

    source: int
    target: int
    joint: bool
    """True if both sides share one vocabulary."""
    labels: int | None = None
    """Number of labels of the data; None if nothing is labelled."""


class RecipeDraft:
    """A recipe that is being written: the requested tables, and what the run chose for the rest.

    Attributes:
        asked: the requested tables.
        reasons: the reasons of the run's choices; dotted key -> words.
    """

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.asked = asked
        self.reasons: dict[str, str] = {}
        self._tables = dict(asked)

    @property
    def recipe(self) -> Recipe:
        """The recipe as it is so far; other settings have their defaults."""
        return check(self._tables, "recipe", Recipe)

    def choose(self, key: str, value: Any, reason: str = "") -> None:
        """Set a setting, such as `train.steps`, if it was left to the run."""
        group, _, name = key.partition(".")
        if self._group(group).get(name) is None:
            self.set(key, value, reason)

    def set(self, key: str, value: Any, reason: str = "") -> None:
        """Replace a setting that was given, to make it exact, such as minutes by steps."""
        group, _, name = key.partition(".")
        self._tables[group] = {**self._group(group), name: value}
        if reason:
            self.reasons[key] = reason

    def _group(self, name: str) -> dict[str, Any]:
        return self._tables.get(name) or {}


# Before any text is read


def choose_before_text(
    draft: RecipeDraft, processes: int = 1, start: Start | None = None, prepared: Mapping[str, Any] | None = None
) -> None:
    """Choose the settings that follow from the task, the model to start from, and data that was prepared before: its
    languages, which its files do not state, and the rules by which it was checked.
    """
    if start is not None:
        keep_start(draft, start)
    if processes > 1:
        draft.choose("train.accumulate", processes, "a batch of every step for each process")
    refuse_useless(draft.recipe)
    choose_family(draft)
    for key, value in (prepared or {}).items():
        if value != UNKNOWN_LANGUAGE:
            draft.choose(key, value, "from the prepared data")
    refuse_idle_processes(draft.recipe, processes)


def keep_start(draft: RecipeDraft, start: Start) -> None:
    """Keep architecture, vocabularies and search options of the model that the run starts from."""
    tokenizer = check({"joint": start.joint}, "tokenizer", TokenizerSettings)
    for group, settings in (("model", start.model), ("tokenizer", tokenizer)):
        kept = settings.model_dump(mode="json", exclude_none=True)
        for name, value in draft.asked.get(group, {}).items():
            if name not in CHANGEABLE_AT_START and kept.get(name) != value:
                what = "architecture" if group == "model" else group
                raise ConfigError(f"fine-tuning keeps the model's {what}; {group}.{name} cannot be set")
        for name, value in kept.items():
            draft.choose(f"{group}.{name}", value)
    defaults = SearchOptions().model_dump(mode="json")
    for name, value in start.decode.items():
        draft.choose(f"decode.{name}", value, "" if value == defaults.get(name) else "as the model to start from")


def refuse_idle_processes(recipe: Recipe, processes: int) -> None:
    """Refuse a step that leaves processes without work."""
    if recipe.train.accumulate < processes:
        raise ConfigError(
            f"train.accumulate is {recipe.train.accumulate}, so {processes} processes cannot share a step's batches; "
            f"use train.accumulate={processes} or more, with smaller batches for the same step, or fewer processes"
        )


def choose_family(draft: RecipeDraft) -> None:
    """Choose the family of models, and the settings that follow from the task alone."""
    task, family = draft.recipe.task, FAMILIES[draft.recipe.task]
    if task != "translation":
        draft.choose("model.family", family, "the task")
    recipe = draft.recipe
    if recipe.model.family != family and task == "translation":
        raise ConfigError(
            f"a translator is model.family = 'encoder_decoder', not {recipe.model.family!r}; "
            "task = 'language_model' learns from running text, 'classify', 'tag' and 'fill' have an encoder alone"
        )
    if recipe.model.family != family:
        raise ConfigError(f"task = {task!r} sets model.family = {family!r} itself; leave model.family out")
    if recipe.model.pooling is not None and task != "classify":
        raise ConfigError("model.pooling makes one vector of a text that gets one label: only task = 'classify' does")
    if task == "language_model":
        draft.choose("model.tied", "target", "input and output are one vocabulary")
    if task == "classify":
        draft.choose("model.pooling", "mean", "learned more than the first symbol from a few thousand texts")
    if task == "classify" and recipe.start is None:
        reason = "nothing else was clearly better on five thousand texts"
        draft.choose("model.embedding_scale", False, reason)
        draft.choose("train.schedule", "linear", reason)


# When the text is known


def choose_by_text(draft: RecipeDraft, text: TextFacts) -> None:
    """Choose the settings that depend on the amount and the kind of the text."""
    if draft.recipe.task == "classify" and draft.recipe.start is None:
        if text.spaceless > SHARE_SPACELESS:  # a whole sentence would be one word
            reason = f"{text.spaceless:.0%} of the texts have no spaces between words"
            draft.choose("tokenizer.kind", "character", reason)
        draft.choose("tokenizer.kind", "word", "nothing else was clearly better on five thousand texts")
    choose_sizes(draft, text.amount)
    if draft.recipe.task == "translation":
        for name, (value, why) in VARIATION.items():
            draft.choose(f"variation.{name}", value, why)
        choose_alignment(draft, text.amount)
    if text.several_sentences > SHARE_OF_WHOLE_LINES:
        draft.choose(
            "decode.split", "long", f"{text.several_sentences:.0%} of the training lines hold several sentences"
        )
    refuse_useless(draft.recipe)


def choose_sizes(draft: RecipeDraft, amount: int) -> None:
    """Choose vocabulary, model and batch by the amount of text; a model that a run starts from keeps its sizes."""
    recipe = draft.recipe
    task, is_new = recipe.task, recipe.start is None
    if task == "translation" and amount == 0:
        raise ConfigError("no pair is left to train on; the data report says why")
    reason = f"for {amount:,} {UNITS[task]}"
    sizes = next(sizes for sizes in SIZES[task] if amount < sizes.below)
    if task == "translation" and not is_new:
        draft.choose("batches.batch_tokens", 1_024 if amount < 100_000 else 2_048, reason)
        return
    if task == "translation" and amount >= MEASURED_PAIRS:
        reason += ", extrapolated from fewer"
    if task == "language_model" and is_new:
        draft.choose("tokenizer.kind", "byte_bpe", "gives every character of a text back")
    if is_new:
        if draft.recipe.tokenizer.kind in LEARNED_PIECES:
            draft.choose("tokenizer.vocabulary_size", sizes.vocabulary_size, reason)
        draft.choose("model.size", sizes.size, reason)
        draft.choose("model.dropout", sizes.dropout, reason)
    draft.choose("batches.batch_tokens", sizes.batch_tokens, reason)
    if task == "language_model":
        draft.choose("train.label_smoothing", 0.0, "a language model is measured by its likelihood")
    if task == "fill":
        draft.choose("train.label_smoothing", 0.0, "masked words are measured by their likelihood")


def choose_alignment(draft: RecipeDraft, pairs: int) -> None:
    """Let a head of cross-attention learn alignments from enough text; a finished model keeps its head, or none."""
    if draft.recipe.start is None:
        if pairs >= LEAST_ALIGNED or draft.recipe.model.alignment_head is not None:
            draft.choose("train.alignment_weight", ALIGNMENT_WEIGHT, f"an aligner learns enough from {pairs:,} pairs")
        if draft.recipe.train.alignment_weight:
            layer = (draft.recipe.model.decoder_layers - 1) // 2
            draft.choose("model.alignment_head", [layer, 0], "heads of a middle layer learned alignments best")
    weight, head = draft.recipe.train.alignment_weight, draft.recipe.model.alignment_head
    if weight and head is None:
        raise ConfigError(
            "train.alignment_weight trains model.alignment_head, but the starting model has no alignment head"
        )
    if weight == 0 and head is not None and draft.recipe.start is None:
        raise ConfigError("model.alignment_head would learn nothing with train.alignment_weight = 0; leave one out")


# When the tokenizers are known


def choose_by_vocabularies(draft: RecipeDraft, vocabularies: VocabularySizes, precision: str, reason: str) -> None:
    """Choose the settings that depend on the tokenizers, the labels, and the precision of this machine."""
    match_vocabularies(draft, vocabularies)
    draft.set("train.precision", precision, reason)
    choose_optimiser(draft)


def match_vocabularies(draft: RecipeDraft, vocabularies: VocabularySizes) -> None:
    """Set the sizes of the vocabularies and tied matrices, which follow from tokenizers and data."""
    model = draft.recipe.model
    if model.family == "encoder_decoder":
        known = {
            f"{side}_vocabulary": (size, f"the {side} tokenizer has {size} tokens")
            for side, size in (("source", vocabularies.source), ("target", vocabularies.target))
        }
    elif model.family == "language_model":
        known = {"target_vocabulary": (vocabularies.target, f"the tokenizer has {vocabularies.target} tokens")}
    else:
        known = {"source_vocabulary": (vocabularies.source, f"there are {vocabularies.source} tokens")}
    if vocabularies.labels is not None:
        known["labels"] = (vocabularies.labels, f"there are {vocabularies.labels} labels")
    for name, (size, words) in known.items():
        asked = draft.asked.get("model", {}).get(name)
        if asked not in (None, size):
            raise ConfigError(f"model.{name} is {asked}, but {words}; leave it out")
        if getattr(model, name) is None or model.family != "encoder":
            draft.set(f"model.{name}", size, "from the data" if name == "labels" else "from the tokenizer")
    if model.family == "encoder_decoder":
        if model.tied == "all" and not vocabularies.joint:
            raise ConfigError("model.tied = 'all' needs one joint vocabulary (tokenizer.joint = true)")
        tied, reason = ("all", "one joint vocabulary") if vocabularies.joint else ("target", "two vocabularies")
        draft.choose("model.tied", tied, reason)


def choose_optimiser(draft: RecipeDraft) -> None:
    """Choose a rate that stays high and falls at the end, and Muon for narrow models.

    Both learned most in the same minutes from the 29,000 pairs of Multi30k; on the 310,000 of Tatoeba schedules were
    not compared over the same steps (LOG.md). Fine-tuning and models of the paper's kind keep AdamW and a rate that
    falls from the first step.
    """
    recipe = draft.recipe
    is_of_the_paper = recipe.model.norm_position == "post" or recipe.train.schedule == "noam"
    if recipe.start is not None or is_of_the_paper:
        return
    draft.choose("train.schedule", "wsd", "learned most in the same minutes from 29,000 pairs")
    if recipe.model.d_model <= WIDEST_FOR_MUON:
        reason = "learned more than adamw in the same minutes at width 128, not at 256"
        draft.choose("train.optimiser", "muon", reason)
