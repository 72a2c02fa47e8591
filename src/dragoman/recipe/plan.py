"""What nobody asked for, chosen: sizes from the amount of data, rates from the width, each choice with its reason."""

import logging
import math
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pydantic

from dragoman import machine
from dragoman.config import check
from dragoman.errors import ConfigError
from dragoman.model import ModelConfig
from dragoman.model.config import Size
from dragoman.recipe.recipe import LIMITS, Recipe
from dragoman.text.reading.languages import UNKNOWN_LANGUAGE
from dragoman.text.report import REPORT, read_report
from dragoman.tokenizing.tokenizer import Tokenizers
from dragoman.training.schedule import noam_peak
from dragoman.translating.sentences import split_sentences

DEFAULT_MINUTES = 30.0
VALIDATIONS = 10
FINE_TUNE_EPOCHS = 6.0
FINE_TUNE_RATE = 0.25
"""Of the rate that training from nothing takes: a finished model is to be moved, not shaken."""
BEST_RATES, AT_WIDTH = {"adam": 2e-3, "adamw": 2e-3, "muon": 5.6e-3}, 256
"""Measured best at widths from 128 to 256; other widths take more or less, in proportion to the root, unmeasured."""
WIDEST_FOR_MUON = 192
"""Its products cost a step of width 128 13 % more, one of width 256 40 %, and are then not worth it. In between it was
not compared.
"""
WARMUP_SHARE, LONGEST_WARMUP = 0.1, 4_000
SAMPLED_LINES, MANY = 2_000, 0.1
FEW_PAIRS = 5_000

log = logging.getLogger(__name__)


class Sizes(NamedTuple):
    """What is taken for fewer than so many pairs.

    Up to a million they are what learnt most in 4 to 30 minutes of two cores, on 29,000 and 310,000 pairs (LOG.md). No
    run supports the larger ones, nor any of these for a GPU or for hours: they are extrapolated.
    """

    pairs: float
    vocabulary_size: int
    size: Size
    dropout: float
    batch_tokens: int


MEASURED_PAIRS = 1_000_000
"""Sizes for more pairs than these are extrapolated."""
SIZES = (
    Sizes(20_000, 4_000, "tiny", 0.2, 1_024),
    Sizes(60_000, 8_000, "tiny", 0.2, 2_048),
    Sizes(1_000_000, 8_000, "mini", 0.1, 2_048),
    Sizes(5_000_000, 8_000, "small", 0.1, 2_048),
    Sizes(math.inf, 32_000, "base", 0.1, 8_192),
)


class Plan(NamedTuple):
    """A recipe's tables as far as they are decided, and why: dotted key -> reason."""

    tables: dict[str, Any]
    reasons: dict[str, str]

    def choose(self, group: str, key: str, value: Any, reason: str) -> None:
        """Sets what was not given."""
        table = self.tables.setdefault(group, {})
        if table.get(key) is None:
            table[key] = value
            self.reasons[f"{group}.{key}"] = reason

    def recipe(self) -> Recipe:
        return check(self.tables, "recipe", Recipe)


def choose_languages(plan: Plan) -> None:
    """Those of prepared data, whose files do not tell them; with its rules, by which it was judged before."""
    path = plan.tables.get("data", {}).get("path")
    if not isinstance(path, str) or not (Path(path) / REPORT).is_file():
        return
    report = read_report(path)
    for side, language in (("source", report.source_language), ("target", report.target_language)):
        if language != UNKNOWN_LANGUAGE:
            plan.choose("data", f"{side}_language", language, "from the prepared data")
    rules = {key.removeprefix("checks."): value for key, value in report.settings.items() if key.startswith("checks.")}
    plan.choose("data", "checks", rules, "from the prepared data")


def choose_sizes(plan: Plan, pairs: int) -> None:
    """Vocabulary, model and batch from the number of training pairs; a model that is fine-tuned has its own."""
    if pairs == 0:
        raise ConfigError("no pair is left to train on; the data report says why")
    if pairs < FEW_PAIRS and not plan.tables.get("start"):
        log.warning("only %s pairs to train on: a model of its own needs some ten thousand at least", f"{pairs:,}")
    if plan.tables.get("start"):
        plan.choose("batches", "batch_tokens", 1_024 if pairs < 100_000 else 2_048, f"for {pairs:,} training pairs")
        return
    amount = f"for {pairs:,} training pairs" + ("" if pairs < MEASURED_PAIRS else ", extrapolated from fewer")
    fitting = next(sizes for sizes in SIZES if pairs < sizes.pairs)
    if plan.tables.get("tokenizer", {}).get("kind", "bpe") in ("bpe", "unigram", "byte_bpe"):
        plan.choose("tokenizer", "vocabulary_size", fitting.vocabulary_size, amount)
    plan.choose("model", "size", fitting.size, amount)
    plan.choose("batches", "batch_tokens", fitting.batch_tokens, amount)
    plan.choose("model", "dropout", fitting.dropout, amount)


def choose_architecture(plan: Plan, tokenizers: Tokenizers) -> None:
    """Vocabulary sizes and tied matrices follow from the tokenizers."""
    model = plan.tables.setdefault("model", {})
    for side in ("source", "target"):
        size = getattr(tokenizers, side).size
        given = model.get(f"{side}_vocabulary")
        if given not in (None, size):
            raise ConfigError(
                f"model.{side}_vocabulary is {given}, but the {side} tokenizer has {size} tokens; leave it out"
            )
        model[f"{side}_vocabulary"] = size
        plan.reasons[f"model.{side}_vocabulary"] = "from the tokenizer"
    joint = tokenizers.joint
    plan.choose("model", "tied", "all" if joint else "target", "one joint vocabulary" if joint else "two vocabularies")
    if model["tied"] == "all" and not joint:
        raise ConfigError("model.tied = 'all' needs one joint vocabulary (tokenizer.joint = true)")
    # Everything that the preset fills in is written out, so that the recipe says it all.
    filled: ModelConfig = check(model, "model", ModelConfig)
    model.update(filled.model_dump(mode="json", exclude_none=True))


def choose_optimiser(plan: Plan) -> None:
    """A rate that stays high and falls at the end, and in narrow models Muon, learnt most in the same minutes from the
    29,000 pairs of Multi30k; on the 310,000 of Tatoeba schedules were not compared in the same steps (LOG.md). What
    starts from a finished model, and the paper's own way, keep to a rate that falls from the first, and AdamW.
    """
    train, model = plan.tables.setdefault("train", {}), plan.tables["model"]
    by_the_paper = model["norm_position"] == "post" or train.get("schedule") == "noam"
    if plan.tables.get("start") or by_the_paper:
        return
    plan.choose("train", "schedule", "wsd", "learnt most in the same minutes from 29,000 pairs")
    if model["d_model"] <= WIDEST_FOR_MUON:
        plan.choose("train", "optimiser", "muon", "learnt more than adamw in the same minutes at width 128, not at 256")


def choose_search(plan: Plan, sources: Iterable[str]) -> None:
    """Whether a model that learned from lines should be given lines: it should where many hold several sentences."""
    lines = list(islice(sources, SAMPLED_LINES))
    several = sum(len(split_sentences(line)) > 1 for line in lines) / max(1, len(lines))
    if several > MANY:
        plan.choose("decode", "split", "long", f"{several:.0%} of the training lines hold several sentences")


def choose_precision(plan: Plan, device: str) -> None:
    asked = plan.tables.get("train", {}).get("precision", "auto")
    precision, reason = machine.choose_precision(asked, device)
    plan.tables.setdefault("train", {})["precision"] = precision
    plan.reasons["train.precision"] = reason


def choose_share(plan: Plan, processes: int) -> None:
    """A batch of every step for each process, where nothing else is asked for."""
    if processes > 1:
        plan.choose("train", "accumulate", processes, "a batch of every step for each process")
    check_share(plan.recipe(), processes)


def check_share(recipe: Recipe, processes: int) -> None:
    """Refuses a step that leaves processes without work."""
    if recipe.train.accumulate < processes:
        raise ConfigError(
            f"train.accumulate is {recipe.train.accumulate}, so {processes} processes cannot share a step's batches; "
            f"use train.accumulate={processes} or more, with smaller batches for the same step, or fewer processes"
        )


def choose_steps(plan: Plan, steps: int, reason: str) -> None:
    """The limit as a number of steps, and what is derived from it."""
    train = plan.tables.setdefault("train", {})
    for name in ("epochs", "minutes"):
        train.pop(name, None)
    train["steps"] = steps
    plan.reasons["train.steps"] = reason
    warmup = max(1, min(LONGEST_WARMUP, round(WARMUP_SHARE * steps)))
    plan.choose("train", "warmup_steps", warmup, f"a tenth of all steps, at most {LONGEST_WARMUP:,}")
    width = plan.tables["model"]["d_model"]
    if train.get("schedule", "linear") == "noam":
        plan.choose("train", "learning_rate", noam_peak(width, train["warmup_steps"]), "the paper's peak")
    else:
        rate = BEST_RATES[train.get("optimiser", "adamw")] * (AT_WIDTH / width) ** 0.5
        rate *= FINE_TUNE_RATE if plan.tables.get("start") else 1
        plan.choose("train", "learning_rate", float(f"{rate:.2g}"), f"for width {width}")
    plan.choose("train", "validate_every", -(-steps // VALIDATIONS), f"{VALIDATIONS} validations")


def limits_given(plan: Plan) -> dict[str, pydantic.JsonValue]:
    """Which of steps, epochs and minutes was asked for; by default half an hour, or some epochs of fine-tuning."""
    train = plan.tables.setdefault("train", {})
    given = {name: train[name] for name in LIMITS if train.get(name) is not None}
    if given:
        return given
    return {"epochs": FINE_TUNE_EPOCHS} if plan.tables.get("start") else {"minutes": DEFAULT_MINUTES}
