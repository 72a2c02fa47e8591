"""What a run chooses for an encoder alone, which classifies, tags, or fills in masked words: sizes that suit the amount
of text, and class weights. Also which settings it refuses, because it does not translate.
"""

from collections.abc import Iterator
from typing import NamedTuple

from dragoman.errors import ConfigError
from dragoman.model.config import Size
from dragoman.runs.choices import Choice, Choices, Facts
from dragoman.runs.recipe import OF_LABELS, Recipe
from dragoman.runs.refusals import complaints_of_one_text, has_other_layers, refuse
from dragoman.tokenizing.vocabulary import WHOLE_WORDS


class Sizes(NamedTuple):
    """The sizes chosen for an amount of text."""

    vocabulary_size: int
    size: Size
    dropout: float
    batch_tokens: int


FEW_LABELLED, MANY_LABELLED = Sizes(4_000, "tiny", 0.3, 1_024), Sizes(8_000, "mini", 0.2, 2_048)
LITTLE_TEXT, MUCH_TEXT = Sizes(8_000, "mini", 0.1, 4_096), Sizes(16_000, "small", 0.1, 8_192)
MANY_TEXTS, MANY_CHARACTERS = 50_000, 200_000_000
"""Labelled texts, and characters of plain text, from which on the larger sizes are chosen; these are extrapolated."""


def _complaints(recipe: Recipe) -> Iterator[str]:
    """Complaints about settings that an encoder alone would ignore."""
    task = f"task = {recipe.task!r}"
    yield from complaints_of_one_text(recipe)
    if recipe.start is None and recipe.tokenizer.kind not in WHOLE_WORDS and not recipe.tokenizer.joint:
        yield "tokenizer.joint = false gives each side a vocabulary; an encoder alone has only one side; leave it out"
    if has_other_layers(recipe, "decoder_layers"):
        yield "model.decoder_layers: an encoder alone has no decoder; give model.encoder_layers"
    if recipe.model.target_vocabulary is not None:
        yield "model.target_vocabulary: an encoder alone has no target; leave it out"
    if recipe.model.output_bias:
        yield "model.output_bias is a bias of target tokens; an encoder alone has none; leave it out"
    if recipe.task in OF_LABELS and recipe.start is None and recipe.model.tied is not None:
        yield f"model.tied joins the matrices of tokens; {task} predicts labels; leave it out"
    if recipe.task not in OF_LABELS and recipe.model.labels is not None:
        yield f"model.labels is the number of labels; {task} has none; leave it out"
    if recipe.lora is not None:
        yield f"tuning.lora adapts a whole model, and {task} gives an encoder a new head; take tuning.freeze instead"


def be_an_encoder(recipe: Recipe, _facts: Facts) -> Choices:
    """Chooses an encoder alone, and one vector of a text that has one label."""
    yield Choice("model.family", "encoder", "the task")
    if recipe.task == "classify":
        yield Choice("model.pooling", "mean", "learnt more than the first symbol from a few thousand texts")


def refuse_other_families(recipe: Recipe, _facts: Facts) -> Choices:
    """Refuses any other family of models.

    Raises:
        ConfigError: the recipe names one.
    """
    if recipe.model.family != "encoder" and "family" in recipe.model.model_fields_set:
        raise ConfigError(f"task = {recipe.task!r} sets model.family = 'encoder' itself; leave model.family out")
    if recipe.task != "classify" and recipe.model.pooling is not None:
        raise ConfigError("model.pooling makes one vector of a text that gets one label: only task = 'classify' does")
    yield from ()


def choose_tokens(recipe: Recipe, _facts: Facts) -> Choices:
    """A classifier without a start takes whole words, whose vectors begin small, and a rate that falls from the first
    step (LOG.md).
    """
    if recipe.task == "classify" and recipe.start is None:
        reason = "learnt more from five thousand texts"
        yield Choice("tokenizer.kind", "word", reason)
        yield Choice("model.embedding_scale", False, reason)
        yield Choice("train.schedule", "linear", reason)


def choose_sizes(recipe: Recipe, facts: Facts) -> Choices:
    """Vocabulary, model and batch go by the amount of text; a model that a run starts from has its own."""
    if facts.text is None:
        return
    if recipe.task == "fill":
        characters = facts.text.characters
        amount, sizes = f"for {characters:,} characters", LITTLE_TEXT if characters < MANY_CHARACTERS else MUCH_TEXT
        yield Choice("train.label_smoothing", 0.0, "masked words are measured by their likelihood")
    else:
        texts = facts.text.texts
        amount, sizes = f"for {texts:,} labelled texts", FEW_LABELLED if texts < MANY_TEXTS else MANY_LABELLED
    yield Choice("batches.batch_tokens", sizes.batch_tokens, amount)
    yield Choice("model.dropout", sizes.dropout, amount)
    if recipe.start is None:
        if recipe.tokenizer.kind in ("bpe", "unigram", "byte_bpe"):
            yield Choice("tokenizer.vocabulary_size", sizes.vocabulary_size, amount)
        yield Choice("model.size", sizes.size, amount)


def weigh_classes(recipe: Recipe, facts: Facts) -> Choices:
    """All labels count alike: where weights were tried, on very uneven labels, rare ones were found less often with
    them (LOG.md). The choice says how uneven the labels are.
    """
    if recipe.task != "classify" or facts.text is None or not facts.text.labels:
        return
    most, least = max(facts.text.labels), min(facts.text.labels)
    told = f"the most frequent label has {most:,} texts, the rarest {least:,}"
    yield Choice("train.class_weights", "none", f"{told}; balanced makes the rare ones count more")


def match_vocabulary(recipe: Recipe, facts: Facts) -> Choices:
    """Vocabulary and labels are those of tokenizer and data.

    Raises:
        ConfigError: the recipe gives others.
    """
    found = facts.vocabularies
    if found is None:
        return
    for name, size, what in (("source_vocabulary", found.source, "tokens"), ("labels", found.labels, "labels")):
        asked = getattr(recipe.model, name)
        if size is None or asked == size:
            continue
        if asked is not None:
            raise ConfigError(f"model.{name} is {asked}, but there are {size} {what}; leave it out")
        yield Choice(
            f"model.{name}", size, "from the tokenizer" if name != "labels" else "from the data", replaces=True
        )


CHOICES = (
    refuse(_complaints),
    refuse_other_families,
    be_an_encoder,
    choose_tokens,
    choose_sizes,
    weigh_classes,
    match_vocabulary,
)
"""In this order, because a choice may depend on an earlier one."""
