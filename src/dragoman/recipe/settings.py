"""Lists the settings that a recipe or `--set` may hold, and finds them by name or by a part of it."""

from collections.abc import Callable

from dragoman.config import SettingFacts, describe, nearest_setting
from dragoman.errors import ConfigError
from dragoman.recipe.recipe import Recipe

BY_TEXT, BY_SIZE, BY_TOKENIZER = "by the amount of text", "by model.size", "from the tokenizer"
CHOSEN = {
    **dict.fromkeys(("model.size", "model.dropout", "tokenizer.vocabulary_size", "batches.batch_tokens"), BY_TEXT),
    **{f"model.{name}": BY_SIZE for name in ("d_model", "d_ff", "encoder_layers", "decoder_layers", "heads")},
    **{f"model.{name}": BY_TOKENIZER for name in ("source_vocabulary", "target_vocabulary", "tied")},
    **dict.fromkeys(("train.optimiser", "train.schedule"), "by the model"),
    "train.minutes": "30, unless steps or epochs are given",
}
"""Settings that a run chooses unless they are given, and what the choice goes by; `recipe.toml` gives the reason."""


def list_settings(key: str | None = None) -> tuple[SettingFacts, ...]:
    """All settings, or those that `key` names: one, a group, or those whose names begin with it or contain it.

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
        if found := tuple(fact for fact in every if names_it(fact.key)):
            return found
    raise ConfigError(
        f"no setting is called {key}; {nearest_setting(key, Recipe)}; dragoman settings lists all of them"
    )
