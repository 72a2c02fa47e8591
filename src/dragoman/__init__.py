"""Dragoman: train, run, judge and understand your own translation model.

The public functions are the commands: `dragoman.train("phrasebook")` gives the same run as `dragoman train phrasebook`.
Importing this package loads none of its rooms; a name is looked up where it lives when it is first used.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.commands.doctor import doctor as doctor
    from dragoman.commands.fine_tune import fine_tune as fine_tune
    from dragoman.commands.forecast import forecast as forecast
    from dragoman.commands.reproduce import reproduce as reproduce
    from dragoman.commands.seeds import train_seeds as train_seeds
    from dragoman.commands.train import train as train
    from dragoman.errors import Error as Error
    from dragoman.evaluating.evaluate import evaluate as evaluate
    from dragoman.evaluating.speed import benchmark as benchmark
    from dragoman.recipe.recipe import Recipe as Recipe
    from dragoman.recipe.settings import list_settings as list_settings
    from dragoman.runs.listing import list_runs as list_runs
    from dragoman.store import load_model as load_model
    from dragoman.text.prepare import prepare_data as prepare_data
    from dragoman.text.shards import prepare_shard as prepare_shard
    from dragoman.tokenizing.training import train_tokenizer as train_tokenizer
    from dragoman.translating.options import SearchOptions as SearchOptions
    from dragoman.translating.translator import Translator as Translator
    from dragoman.translating.translator import translate as translate

__version__ = "0.1.0"

_HOMES = {
    "Error": "errors",
    "Recipe": "recipe.recipe",
    "SearchOptions": "translating.options",
    "Translator": "translating.translator",
    "benchmark": "evaluating.speed",
    "doctor": "commands.doctor",
    "evaluate": "evaluating.evaluate",
    "fine_tune": "commands.fine_tune",
    "forecast": "commands.forecast",
    "list_runs": "runs.listing",
    "list_settings": "recipe.settings",
    "load_model": "store",
    "prepare_data": "text.prepare",
    "prepare_shard": "text.shards",
    "reproduce": "commands.reproduce",
    "train": "commands.train",
    "train_seeds": "commands.seeds",
    "train_tokenizer": "tokenizing.training",
    "translate": "translating.translator",
}

__all__ = ["__version__", *_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def names_from(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package that looks names up in its modules when they are first used: so that settings can
    be read without torch.
    """

    def look_up(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return look_up


__getattr__ = names_from(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
