"""The settings of a whole run: each room's own, composed. Written to `recipe.toml`, complete, before training."""

import logging
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pydantic

from dragoman.config import Settings, check, override, read
from dragoman.data.batch_settings import BatchSettings
from dragoman.errors import ConfigError, DataError
from dragoman.files import nearest
from dragoman.model import ModelConfig
from dragoman.recipe.expected import Expected
from dragoman.text.inputs import DataSettings
from dragoman.text.reading.addresses import HUB, Address, is_pattern
from dragoman.text.reading.readers import is_prefix
from dragoman.tokenizing.framing import DEFAULT_FRAMING
from dragoman.tokenizing.training import TokenizerSettings
from dragoman.training import TrainSettings
from dragoman.translating.options import SearchOptions

LIMITS = ("steps", "epochs", "minutes")
RECIPE = "recipe.toml"
"""What the recipe of a run is called in its folder."""
METRICS = "metrics.jsonl"
"""What the metrics of a run are called there: a run whose `run.json` is lost still has them."""

log = logging.getLogger(__name__)


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
    """All settings of a run."""

    task: Literal["translation", "language_model"] = "translation"
    """What is learned: to translate, from sentence pairs; or to go on with running text, from a plain text file."""
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
        positions, tokens = self.model.max_positions, self.batches.sentence_tokens
        longest = tokens + max(DEFAULT_FRAMING.source_symbols, DEFAULT_FRAMING.target_symbols)
        if positions is not None and positions < longest:
            raise ValueError(
                f"model.max_positions is {positions}, but sentences of {tokens} tokens and the symbols around them "
                f"need {longest}; raise it, or lower batches.sentence_tokens"
            )
        return self


class Source(NamedTuple):
    """What `train` was pointed at: the tables given, where they come from, and a name for the run."""

    tables: dict[str, Any]
    origin: str
    name: str
    expected: Expected | None = None
    """What a recipe gave where it was run; no part of the run's own recipe."""


def find_recipe(what: "Recipe | str | Path | Sequence[str | Path]", overrides: Sequence[str] = ()) -> Source:
    """A recipe, a recipe file, the name of one in the library, or data (a file, two aligned files, a folder, `hub:…`).

    Raises:
        ConfigError: no such recipe, or a setting in it that cannot be.
        DataError: no such file.
    """
    if isinstance(what, Recipe):
        source = Source(what.model_dump(mode="json", exclude_unset=True, exclude_none=True), "the recipe", "run")
    else:
        source = _read(what)
    if (expected := source.tables.pop("expected", None)) is not None:
        source = source._replace(expected=check(expected, f"{source.origin}, expected", Expected))
    tables = apply(overrides, source.tables)
    try:
        check(tables, "the command line" if overrides else source.origin, Recipe)
    except ConfigError:
        check(source.tables, source.origin, Recipe)  # a mistake that is the recipe's own
        raise
    return source._replace(tables=tables)


def apply(overrides: Sequence[str], tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables with the overrides in their places; one limit of training puts the others aside."""
    keys = {text.partition("=")[0].strip() for text in overrides}
    train: dict[str, Any] | int | None = tables.get("train")  # not yet checked: whatever stands there
    if isinstance(train, dict) and keys & {f"train.{name}" for name in LIMITS}:
        tables = {**tables, "train": {key: value for key, value in train.items() if key not in LIMITS}}
    return override(tables, overrides)


def library() -> list[str]:
    """Names of the recipes that ship with the package."""
    folder = resources.files("dragoman.recipe").joinpath("library")
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def name_of(data: Address) -> str:
    """A name for a run from its data's: `corpus.en-it.tsv.gz` gives `corpus`, `hub:a/books:en-it` gives `books`, and
    `parts-*.tsv` gives `parts`.
    """
    first = Path(data if isinstance(data, str) else data[0])
    name = first.name.removeprefix("hub:").partition(":")[0].partition(".")[0]
    return re.split(r"[*?[]", name)[0].rstrip("-_") or "run"


def _read(what: str | Path | Sequence[str | Path]) -> Source:
    if not isinstance(what, str | Path):
        paths = [str(path) for path in what]
        if len(paths) == 1:
            return _read(paths[0])
        if len(paths) != 2:
            raise ConfigError(
                f"train takes one recipe or data file, or two aligned files, but was given {len(paths)}; many files "
                "are named by a pattern in quotes, as in 'parts/*.tsv'"
            )
        return Source({"data": {"path": paths}}, "the command line", name_of((paths[0], paths[1])))
    from dragoman.store import CONFIG  # here, because it loads torch, and settings are read without

    path = Path(what)
    if path.suffix == ".toml":
        return Source(_tables(path), str(path), path.stem)
    if (path / CONFIG).is_file():
        raise ConfigError(f"{what} is a model; train it on other text with: dragoman fine-tune {what} DATA")
    if str(what) in library():
        if path.exists():
            log.warning("%s means the built-in recipe; for the file of that name here, give ./%s", what, what)
        text = resources.files("dragoman.recipe").joinpath("library", f"{what}.toml").read_text(encoding="utf-8")
        return Source(read(text, f"recipe {what}"), f"recipe {what}", str(what))
    if (path / METRICS).is_file():
        raise ConfigError(f"{what} was a run, but its run.json is missing; train {path / RECIPE} for a new one")
    if not (path.exists() or str(what).startswith(HUB) or is_prefix(path) or is_pattern(str(what))):
        raise DataError(
            f"{what} does not exist{nearest(path, prefixes=True)}: train takes a recipe (.toml), data "
            "(.tsv .csv .jsonl .parquet, two files, a "
            f"folder), an earlier run, or one of the recipes {', '.join(library())}"
        )
    return Source({"data": {"path": str(what)}}, "the command line", name_of(str(what)))


def read_recipe(path: Path) -> Recipe:
    """The recipe in a file.

    Raises:
        ConfigError: it cannot be read, or a setting in it cannot be.
    """
    return check(_tables(path), str(path), Recipe)


def _tables(path: Path) -> dict[str, Any]:
    try:
        return read(path.read_text(encoding="utf-8-sig"), str(path))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist{nearest(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
