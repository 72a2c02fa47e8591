"""The settings of a whole run (`recipe.toml`), those that a task has no use for, and the list of all settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

import pydantic

from dragoman.config import SettingFacts, Settings, check, describe, flatten, nearest_setting, read
from dragoman.errors import ConfigError
from dragoman.files import nearest, read_regular
from dragoman.inference.options import SearchOptions
from dragoman.model.config import LoraSettings, ModelConfig
from dragoman.text.settings import DataSettings, SyntheticSettings
from dragoman.tokenizing.settings import WHOLE_WORDS, TokenizerSettings
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, Framing
from dragoman.training.settings import BatchSettings, TrainSettings, TuningSettings, VariationSettings

Task = Literal["translation", "language_model", "classify", "tag", "fill"]
LABELLING_TASKS = ("classify", "tag")
FAMILIES = {
    "translation": "encoder_decoder",
    "language_model": "language_model",
    "classify": "encoder",
    "tag": "encoder",
    "fill": "encoder",
}
"""Family of models that each task trains."""
LIMITS = ("steps", "epochs", "minutes")
"""Settings of `[train]` that end training; one of them is given."""


class StartSettings(Settings):
    """The `[start]` table: the model to start from, and the old data that keeps it from forgetting."""

    model: str
    """A model folder, whose tokenizer and architecture the run keeps. A classifier, a tagger and a model that fills in
    words may also start from the encoder of a translation model."""
    mix_data: str | None = None
    """Prepared data that the model was trained on, to be mixed in."""
    mix_rate: float = pydantic.Field(default=0.0, ge=0, lt=1)
    """Share of the old data in the text of an epoch, in characters."""

    @pydantic.model_validator(mode="after")
    def _both_or_neither(self) -> "StartSettings":
        if (self.mix_data is None) != (self.mix_rate == 0.0):
            raise ValueError("start.mix_data and start.mix_rate go together")
        return self


class Recipe(Settings):
    """All settings of a run."""

    task: Task = "translation"
    """Task that is learned: to translate, from sentence pairs; to continue running text (language_model) or to fill in
    its masked words (fill), from a plain text file; to label texts (classify) or their words (tag), from labelled text.
    """
    start: StartSettings | None = None
    tuning: TuningSettings | None = None
    data: DataSettings = DataSettings()
    synthetic: SyntheticSettings | None = None
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ModelConfig = pydantic.Field(default_factory=lambda: check({}, "defaults", ModelConfig))
    batches: BatchSettings = BatchSettings()
    variation: VariationSettings = VariationSettings()
    train: TrainSettings = TrainSettings()
    decode: SearchOptions = SearchOptions()

    @pydantic.field_validator("task", mode="before")
    @classmethod
    def _as_commands_call_it(cls, task: Any) -> Any:
        return "translation" if task == "translate" else task

    @property
    def lora(self) -> LoraSettings | None:
        """Settings of adapters; None if the run trains weights of the model itself."""
        return None if self.tuning is None else self.tuning.lora

    @pydantic.field_validator("model", mode="before")
    @classmethod
    def _encoder_settings(cls, model: Any, info: pydantic.ValidationInfo) -> Any:
        """Check settings that only an encoder alone has as such, though the recipe names the task alone."""
        if FAMILIES.get(info.data.get("task", "")) == "encoder" and isinstance(model, dict):
            return {"family": "encoder", **cast("dict[str, Any]", model)}
        return model

    @pydantic.model_validator(mode="after")
    def _without_contradictions(self) -> "Recipe":
        if self.tuning is not None and self.start is None:
            raise ValueError(
                "[tuning] freezes or adapts a finished model, but there is none to start from; use dragoman fine-tune "
                "MODEL DATA, or give start.model"
            )
        if complaint := too_few_positions(self, DEFAULT_FRAMING):
            raise ValueError(complaint)
        if self.train.alignment_weight and self.task != "translation":
            raise ValueError("train.alignment_weight is about translations; leave it out")
        return self


def too_few_positions(recipe: Recipe, framing: Framing) -> str | None:
    """Return a message if the model has fewer positions than the longest sentences and the symbols around them."""
    positions, tokens = recipe.model.max_positions, recipe.batches.sentence_tokens
    longest = tokens + max(framing.source_symbols, framing.target_symbols)
    if positions is None or positions >= longest:
        return None
    return (
        f"model.max_positions is {positions}, but sentences of {tokens} tokens and the symbols around them "
        f"need {longest}; raise it, or lower batches.sentence_tokens"
    )


def read_recipe(path: Path) -> Recipe:
    """Read the recipe in a file."""
    return check(read_tables(path), str(path), Recipe)


def read_tables(path: Path) -> dict[str, Any]:
    """Read the tables of a recipe file, unchecked."""
    try:
        return read(read_regular(path).decode("utf-8-sig"), str(path))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist{nearest(path)}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} cannot be read: it is not UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


# Settings that a task has no use for


SHARED_DATA_SETTINGS = frozenset({"path", "folder", "origin", "dev_path", "test_path", "encoding_errors"})
"""Settings of `[data]` that name the place of the text; the others describe its content and suit only some tasks."""
_ROW_SETTINGS = frozenset({"format", "header", "dev_size", "test_size", "seed", "source_language", "target_language"})
LABEL_SETTINGS = frozenset({"text_column", "label_column", "label_depth"})
_LABELLED_SETTINGS = _ROW_SETTINGS | LABEL_SETTINGS | {"quoted", "checks.drop_duplicates"}
_TASK_SETTINGS = {
    "translation": frozenset(DataSettings.model_fields) - LABEL_SETTINGS,
    "classify": _LABELLED_SETTINGS,
    "tag": _LABELLED_SETTINGS - {"header", "quoted"},
    "fill": frozenset({"target_language", "text_column"}),
    "language_model": frozenset({"target_language", "text_column"}),
}
_READS = {"translation": "sentence pairs", "classify": "labelled texts", "tag": "labelled words"}
"""Input of a task; the others read running text."""


def refuse_useless(recipe: Recipe) -> None:
    """Refuse settings that the task would ignore."""
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
    used = SHARED_DATA_SETTINGS | _TASK_SETTINGS[recipe.task]
    for key in _given(recipe, "data"):
        if not used & {key, key.partition(".")[0]}:
            reads = _READS.get(recipe.task, "running text")
            raise ConfigError(f"task = {recipe.task!r} reads {reads} and has no use for data.{key}; leave it out")


def _refuse_settings_of_pairs(recipe: Recipe) -> None:
    task = f"task = {recipe.task!r}"
    for address in (recipe.data.path, recipe.data.dev_path, recipe.data.test_path):
        if isinstance(address, tuple):
            raise ConfigError(
                f"{task} reads one text, not two aligned files or several texts ({address[0]}, …); name one file, or "
                "several by a pattern"
            )
    if recipe.synthetic is not None:
        raise ConfigError(f"synthetic.path names sentence pairs; {task} has none; leave it out")
    if useless := _given(recipe, "variation"):
        raise ConfigError(f"variation.{useless[0]} is about sentence pairs; {task} has none; leave it out")
    if useless := _given(recipe, "decode"):
        raise ConfigError(f"decode.{useless[0]} is about translations; {task} makes none; leave it out")
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
    default = check({"preset": recipe.model.preset, "size": recipe.model.size}, "model", ModelConfig)
    return getattr(recipe.model, name) != getattr(default, name)


# The list of settings


BY_TEXT, BY_SIZE, BY_TOKENIZER = "by the amount of text", "by model.size", "from the tokenizer"
CHOSEN = {
    **dict.fromkeys(("model.size", "model.dropout", "tokenizer.vocabulary_size", "batches.batch_tokens"), BY_TEXT),
    **{f"model.{name}": BY_SIZE for name in ("d_model", "d_ff", "encoder_layers", "decoder_layers", "heads")},
    **{f"model.{name}": BY_TOKENIZER for name in ("source_vocabulary", "target_vocabulary", "tied")},
    **dict.fromkeys(("train.optimiser", "train.schedule"), "by the model"),
    **dict.fromkeys(("train.alignment_weight", "model.alignment_head"), BY_TEXT),
    **dict.fromkeys((f"variation.{name}" for name in VariationSettings.model_fields), "by the task"),
    "train.minutes": "30, unless steps or epochs are given",
}
"""Settings that a run chooses unless they are given, with the basis of the choice; `recipe.toml` gives the reason."""


def list_settings(key: str | None = None) -> tuple[SettingFacts, ...]:
    """List all settings, or those that `key` names: one, a group, or those whose names begin with it or contain it.

    Raises:
        ConfigError: no setting's name contains it.
    """
    every = [fact._replace(default=CHOSEN.get(fact.key, fact.default)) for fact in describe(Recipe)]
    if key is None:
        return tuple(every)
    ways: tuple[Callable[[str], bool], ...] = (
        lambda name: name == key,
        lambda name: name.startswith(f"{key}."),
        lambda name: name.startswith(key),
        lambda name: key in name,
    )
    for names_it in ways:
        if named := tuple(fact for fact in every if names_it(fact.key)):
            return named
    raise ConfigError(
        f"no setting is called {key}; {nearest_setting(key, Recipe)}; dragoman settings lists all of them"
    )
