"""What a run chooses for translation: sizes by the number of pairs, languages, vocabularies, what to translate at a
time.
"""

import math
from typing import NamedTuple

from dragoman.errors import ConfigError
from dragoman.model.config import Size
from dragoman.runs.choices import Choice, Choices, Facts
from dragoman.runs.recipe import Recipe
from dragoman.runs.refusals import complaints_of_data, refuse
from dragoman.text.languages import UNKNOWN_LANGUAGE

FEW_PAIRS = 5_000
"""Fewer pairs are hardly enough for a model of its own."""
MANY = 0.1
"""Share of the training lines from which on lines of several sentences count as usual."""


class Sizes(NamedTuple):
    """What is chosen for fewer than so many pairs.

    Up to a million pairs these learnt most in 4 to 30 minutes of two cores, on 29,000 and 310,000 pairs (LOG.md). The
    larger ones are extrapolated, and so are all of them for GPUs and for hours.
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


def refuse_other_families(recipe: Recipe, _facts: Facts) -> Choices:
    if recipe.model.family != "encoder_decoder":
        raise ConfigError(
            f"a translator is model.family = 'encoder_decoder', not {recipe.model.family!r}; "
            "task = 'language_model' learns from running text, 'classify', 'tag' and 'fill' have an encoder alone"
        )
    yield from ()


def take_languages(_recipe: Recipe, facts: Facts) -> Choices:
    """Prepared data knows its languages, which its files do not tell, and the rules by which it was checked."""
    if facts.prepared is None:
        return
    reason = "from the prepared data"
    for side in ("source", "target"):
        language = getattr(facts.prepared, f"{side}_language")
        if language != UNKNOWN_LANGUAGE:
            yield Choice(f"data.{side}_language", language, reason)
    yield Choice("data.checks", facts.prepared.rules, reason)


def choose_sizes(recipe: Recipe, facts: Facts) -> Choices:
    """Vocabulary, model and batch go by the number of training pairs; a model that is fine-tuned has its own."""
    if facts.text is None:
        return
    pairs = facts.text.pairs
    if pairs == 0:
        raise ConfigError("no pair is left to train on; the data report says why")
    amount = f"for {pairs:,} training pairs"
    if recipe.start is not None:
        yield Choice("batches.batch_tokens", 1_024 if pairs < 100_000 else 2_048, amount)
        return
    if pairs >= MEASURED_PAIRS:
        amount += ", extrapolated from fewer"
    sizes = next(sizes for sizes in SIZES if pairs < sizes.pairs)
    if recipe.tokenizer.kind in ("bpe", "unigram", "byte_bpe"):
        yield Choice("tokenizer.vocabulary_size", sizes.vocabulary_size, amount)
    yield Choice("model.size", sizes.size, amount)
    yield Choice("batches.batch_tokens", sizes.batch_tokens, amount)
    yield Choice("model.dropout", sizes.dropout, amount)


def choose_split(_recipe: Recipe, facts: Facts) -> Choices:
    """A model that learnt from lines of several sentences is given whole lines."""
    if facts.text is not None and (share := facts.text.several_sentences) > MANY:
        yield Choice("decode.split", "long", f"{share:.0%} of the training lines hold several sentences")


def match_vocabularies(recipe: Recipe, facts: Facts) -> Choices:
    """Vocabulary sizes and tied matrices follow from the tokenizers."""
    found = facts.vocabularies
    if found is None:
        return
    for side in ("source", "target"):
        size, asked = getattr(found, side), getattr(recipe.model, f"{side}_vocabulary")
        if asked not in (None, size):
            raise ConfigError(
                f"model.{side}_vocabulary is {asked}, but the {side} tokenizer has {size} tokens; leave it out"
            )
        yield Choice(f"model.{side}_vocabulary", size, "from the tokenizer", replaces=True)
    if recipe.model.tied == "all" and not found.joint:
        raise ConfigError("model.tied = 'all' needs one joint vocabulary (tokenizer.joint = true)")
    tied, reason = ("all", "one joint vocabulary") if found.joint else ("target", "two vocabularies")
    yield Choice("model.tied", tied, reason)


CHOICES = (
    refuse(complaints_of_data),
    refuse_other_families,
    take_languages,
    choose_sizes,
    choose_split,
    match_vocabularies,
)
"""In this order, because one may go by what another chose."""
