"""The settings of a whole run: each room's own, composed. Written to `recipe.toml`, complete, before training."""

from pathlib import Path
from typing import Any

import pydantic

from dragoman.config import Settings, check, read
from dragoman.data.batch_settings import BatchSettings
from dragoman.decoding.options import SearchOptions
from dragoman.errors import ConfigError
from dragoman.files import nearest
from dragoman.model import ModelConfig
from dragoman.text.prepare import DataSettings
from dragoman.tokenizing.training import TokenizerSettings
from dragoman.training import TrainSettings

LIMITS = ("steps", "epochs", "minutes")
RECIPE = "recipe.toml"
"""What the recipe of a run is called in its folder."""
METRICS = "metrics.jsonl"
"""What the metrics of a run are called there: a run whose `run.json` is lost still has them."""


class StartSettings(Settings):
    """Fine-tuning: which model a run starts from, and how it keeps what that model knew."""

    model: str
    """A model folder; its tokenizer and architecture are taken over."""
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
    start: StartSettings | None = None
    data: DataSettings = DataSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ModelConfig = pydantic.Field(default_factory=lambda: check({}, "defaults", ModelConfig))
    batches: BatchSettings = BatchSettings()
    train: TrainSettings = TrainSettings()
    decode: SearchOptions = SearchOptions()

    @pydantic.model_validator(mode="after")
    def _two_passes_differ(self) -> "Recipe":
        rates = (self.model.dropout, self.model.attention_dropout, self.model.activation_dropout)
        if self.train.r_drop and not any(rates):
            raise ValueError(
                "train.r_drop compares two passes with different dropout, but no dropout is set; raise model.dropout "
                "or leave r_drop out"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _one_chooser(self) -> "Recipe":
        if self.batches.batch_tokens == "auto" and self.train.accumulate > 1:
            raise ValueError("batches.batch_tokens = 'auto' chooses train.accumulate; leave it out")
        return self

    @pydantic.model_validator(mode="after")
    def _a_position_for_every_token(self) -> "Recipe":
        positions, longest = self.model.max_positions, self.batches.sentence_tokens + 2  # start and end
        if positions is not None and positions < longest:
            raise ValueError(
                f"model.max_positions is {positions}, but sentences of {longest - 2} tokens and the two symbols around "
                f"them need {longest}; raise it, or lower batches.sentence_tokens"
            )
        return self


def read_recipe(path: Path) -> Recipe:
    """The recipe in a file.

    Raises:
        ConfigError: it cannot be read, or a setting in it cannot be.
    """
    return check(read_tables(path), str(path), Recipe)


def read_tables(path: Path) -> dict[str, Any]:
    """The tables of a recipe file, unchecked.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    try:
        return read(path.read_text(encoding="utf-8-sig"), str(path))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist{nearest(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
