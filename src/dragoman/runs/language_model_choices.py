"""What a run chooses for a language model: bytes or learnt pieces, and sizes that suit the number of characters. Also
which settings it refuses, because only translation has them.
"""

from collections.abc import Iterator
from typing import NamedTuple

from dragoman.errors import ConfigError
from dragoman.model.config import Size
from dragoman.runs.choices import Choice, Choices, Facts
from dragoman.runs.recipe import Recipe
from dragoman.runs.refusals import complaints_of_one_text, has_other_layers, refuse
from dragoman.tokenizing.vocabulary import WHOLE_WORDS

LARGE = 5_000_000
"""From this many characters on, a vocabulary of pieces is learnt; a smaller text is read byte by byte."""


class Sizes(NamedTuple):
    """The sizes chosen for a text. Only those of a small text were tried, on a million characters; the others are
    extrapolated.
    """

    vocabulary_size: int
    size: Size
    dropout: float
    batch_tokens: int


SMALL_TEXT = Sizes(260, "tiny", 0.1, 2_048)
LARGE_TEXT = Sizes(8_000, "small", 0.1, 4_096)


def _complaints(recipe: Recipe) -> Iterator[str]:
    """Complaints about settings that a language model would ignore."""
    yield from complaints_of_one_text(recipe)
    yield from _complaints_of_tokenizer(recipe)
    if has_other_layers(recipe, "encoder_layers"):
        yield "model.encoder_layers: a language model has no encoder; give model.decoder_layers"
    if recipe.model.source_vocabulary is not None:
        yield "model.source_vocabulary: a language model has no source; leave it out"


def _complaints_of_tokenizer(recipe: Recipe) -> Iterator[str]:
    kind = recipe.tokenizer.kind
    if kind in WHOLE_WORDS:
        yield (
            f"tokenizer.kind = {kind!r} loses white space and unknown words, so a loss would not be the likelihood of "
            "the text; task = 'language_model' takes character, byte_bpe, bpe or unigram"
        )
    elif not recipe.tokenizer.joint:
        yield "tokenizer.joint = false gives each side a vocabulary; a language model has only one side; leave it out"


def be_a_language_model(_recipe: Recipe, _facts: Facts) -> Choices:
    """Chooses a model of one side, whose input and output share a matrix."""
    yield Choice("model.family", "language_model", "the task")
    yield Choice("model.tied", "target", "input and output are one vocabulary")


def refuse_other_families(recipe: Recipe, _facts: Facts) -> Choices:
    """Refuses any other family of models.

    Raises:
        ConfigError: the recipe names one.
    """
    if recipe.model.family != "language_model":
        raise ConfigError("task = 'language_model' sets model.family = 'language_model' itself; leave model.family out")
    yield from ()


def choose_sizes(recipe: Recipe, facts: Facts) -> Choices:
    """Chooses vocabulary, model and batch by the number of characters; a model that is fine-tuned keeps its own
    vocabulary and size.
    """
    if facts.text is None:
        return
    characters = facts.text.characters
    amount = f"for {characters:,} characters"
    sizes = SMALL_TEXT if characters < LARGE else LARGE_TEXT
    if recipe.start is None:
        yield Choice("tokenizer.kind", "byte_bpe", "gives every character of a text back")
        if recipe.tokenizer.kind in ("bpe", "unigram", "byte_bpe"):
            yield Choice("tokenizer.vocabulary_size", sizes.vocabulary_size, amount)
        yield Choice("model.size", sizes.size, amount)
        yield Choice("model.dropout", sizes.dropout, amount)
    yield Choice("train.label_smoothing", 0.0, "a language model is measured by its likelihood")
    yield Choice("batches.batch_tokens", sizes.batch_tokens, amount)


def match_vocabulary(recipe: Recipe, facts: Facts) -> Choices:
    """Sets the model's vocabulary to the tokenizer's.

    Raises:
        ConfigError: the recipe gives another size.
    """
    if facts.vocabularies is None:
        return
    size, asked = facts.vocabularies.target, recipe.model.target_vocabulary
    if asked not in (None, size):
        raise ConfigError(f"model.target_vocabulary is {asked}, but the tokenizer has {size} tokens; leave it out")
    yield Choice("model.target_vocabulary", size, "from the tokenizer", replaces=True)


CHOICES = (refuse(_complaints), be_a_language_model, refuse_other_families, choose_sizes, match_vocabulary)
"""In this order, because a choice may depend on an earlier one."""
