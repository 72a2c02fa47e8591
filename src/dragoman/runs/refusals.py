"""Which settings each task has no use for: `refuse_useless`."""

from dragoman.config import check, flatten
from dragoman.errors import ConfigError
from dragoman.model.config import ModelConfig
from dragoman.runs.recipe import LABELLING_TASKS, Recipe
from dragoman.text.settings import DataSettings
from dragoman.tokenizing.vocabulary import WHOLE_WORDS

OF_EVERY_TASK = frozenset({"path", "folder", "origin", "dev_path", "test_path", "encoding_errors"})
"""Settings of `[data]` that say where the text is; the others say what is in it, and have a use for some tasks only."""
_OF_ROWS = frozenset({"format", "header", "dev_size", "test_size", "seed", "source_language", "target_language"})
_LABELS = frozenset({"text_column", "label_column", "label_depth"})
_OF_LABELS = _OF_ROWS | _LABELS | {"quoted", "checks.drop_duplicates"}
_OF_TASK = {
    "translation": frozenset(DataSettings.model_fields) - _LABELS,
    "classify": _OF_LABELS,
    "tag": _OF_LABELS - {"header", "quoted"},
    "fill": frozenset({"target_language", "text_column"}),
    "language_model": frozenset({"target_language", "text_column"}),
}
_READS = {"translation": "sentence pairs", "classify": "labelled texts", "tag": "labelled words"}
"""What a task reads; the others read running text."""


def refuse_useless(recipe: Recipe) -> None:
    """Refuses settings that the task would ignore."""
    _refuse_other_data(recipe)
    if recipe.task == "translation":
        return
    _refuse_settings_of_pairs(recipe)
    if recipe.task == "language_model":
        _refuse_for_language_model(recipe)
    else:
        _refuse_for_encoder(recipe)


def _given(recipe: Recipe, group: str) -> list[str]:
    return [*flatten(getattr(recipe, group).model_dump(mode="json", exclude_defaults=True))]


def _refuse_other_data(recipe: Recipe) -> None:
    used = OF_EVERY_TASK | _OF_TASK[recipe.task]
    for key in _given(recipe, "data"):
        if not used & {key, key.partition(".")[0]}:
            reads = _READS.get(recipe.task, "running text")
            raise ConfigError(f"task = {recipe.task!r} reads {reads} and has no use for data.{key}; leave it out")


def _refuse_settings_of_pairs(recipe: Recipe) -> None:
    task = f"task = {recipe.task!r}"
    for address in (recipe.data.path, recipe.data.dev_path, recipe.data.test_path):
        if isinstance(address, tuple):
            raise ConfigError(
                f"{task} reads one text, not two aligned files ({' and '.join(address)}); name one file, or several by "
                "a pattern"
            )
    if given := _given(recipe, "variation"):
        raise ConfigError(f"variation.{given[0]} is about sentence pairs; {task} has none; leave it out")
    if given := _given(recipe, "decode"):
        raise ConfigError(f"decode.{given[0]} is about translations; {task} makes none; leave it out")
    if recipe.start is not None and recipe.start.mix_data is not None:
        raise ConfigError(
            f"start.mix_data and start.mix_rate mix in sentence pairs; {task} reads one text; add the old text to the "
            "new file"
        )


def _refuse_for_language_model(recipe: Recipe) -> None:
    kind = recipe.tokenizer.kind
    if kind in WHOLE_WORDS:
        raise ConfigError(
            f"tokenizer.kind = {kind!r} loses white space and unknown words, so a loss would not be the likelihood of "
            "the text; task = 'language_model' takes character, byte_bpe, bpe or unigram"
        )
    if not recipe.tokenizer.joint:
        raise ConfigError(
            "tokenizer.joint = false gives each side a vocabulary; a language model has only one side; leave it out"
        )
    if _has_other_layers(recipe, "encoder_layers"):
        raise ConfigError("model.encoder_layers: a language model has no encoder; give model.decoder_layers")
    if recipe.model.source_vocabulary is not None:
        raise ConfigError("model.source_vocabulary: a language model has no source; leave it out")


def _refuse_for_encoder(recipe: Recipe) -> None:
    task = f"task = {recipe.task!r}"
    if recipe.start is None and recipe.tokenizer.kind not in WHOLE_WORDS and not recipe.tokenizer.joint:
        raise ConfigError(
            "tokenizer.joint = false gives each side a vocabulary; an encoder alone has only one side; leave it out"
        )
    if _has_other_layers(recipe, "decoder_layers"):
        raise ConfigError("model.decoder_layers: an encoder alone has no decoder; give model.encoder_layers")
    if recipe.model.target_vocabulary is not None:
        raise ConfigError("model.target_vocabulary: an encoder alone has no target; leave it out")
    if recipe.model.output_bias:
        raise ConfigError("model.output_bias is a bias of target tokens; an encoder alone has none; leave it out")
    if recipe.task in LABELLING_TASKS and recipe.start is None and recipe.model.tied is not None:
        raise ConfigError(f"model.tied joins the matrices of tokens; {task} predicts labels; leave it out")
    if recipe.task not in LABELLING_TASKS and recipe.model.labels is not None:
        raise ConfigError(f"model.labels is the number of labels; {task} has none; leave it out")
    if recipe.lora is not None:
        raise ConfigError(
            f"tuning.lora adapts a whole model, and {task} gives an encoder a new head; take tuning.freeze instead"
        )


def _has_other_layers(recipe: Recipe, name: str) -> bool:
    of_size = check({"preset": recipe.model.preset, "size": recipe.model.size}, "model", ModelConfig)
    return getattr(recipe.model, name) != getattr(of_size, name)
