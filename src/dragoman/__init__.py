"""Dragoman: train, run, judge and understand your own translation model.

The public functions are the commands: `dragoman.train("phrasebook")` gives the same run as `dragoman train phrasebook`.
Importing this package loads none of its rooms; a name is looked up where it lives when it is first used.
"""

import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.commands.benchmark import benchmark as benchmark
    from dragoman.commands.compare import compare as compare
    from dragoman.commands.doctor import doctor as doctor
    from dragoman.commands.fine_tune import fine_tune as fine_tune
    from dragoman.commands.forecast import forecast as forecast
    from dragoman.commands.judge_heads import judge_heads as judge_heads
    from dragoman.commands.making.average import average as average
    from dragoman.commands.making.convert import convert as convert
    from dragoman.commands.making.export import export as export
    from dragoman.commands.making.merge import merge as merge
    from dragoman.commands.making.quantize import quantize as quantize
    from dragoman.commands.reproduce import reproduce as reproduce
    from dragoman.commands.score import score as score
    from dragoman.commands.seeds import train_seeds as train_seeds
    from dragoman.commands.train import train as train
    from dragoman.commands.train_tokenizer import train_tokenizer as train_tokenizer
    from dragoman.errors import Error as Error
    from dragoman.evaluating.evaluation import evaluate as evaluate
    from dragoman.explaining.embeddings.space import load_embeddings as load_embeddings
    from dragoman.explaining.recording import explain_choice as explain_choice
    from dragoman.explaining.recording import record as record
    from dragoman.explaining.writing import write_record as write_record
    from dragoman.generating.generator import Generator as Generator
    from dragoman.generating.generator import generate as generate
    from dragoman.generating.options import GenerateOptions as GenerateOptions
    from dragoman.memory import keep_freed_memory as keep_freed_memory
    from dragoman.predicting.predictor import Predictor as Predictor
    from dragoman.predicting.predictor import predict as predict
    from dragoman.recipe.recipe import Recipe as Recipe
    from dragoman.recipe.settings import list_settings as list_settings
    from dragoman.runs.listing import list_runs as list_runs
    from dragoman.store import load_model as load_model
    from dragoman.text.prepare import prepare_data as prepare_data
    from dragoman.text.shards import prepare_shard as prepare_shard
    from dragoman.translating.options import SearchOptions as SearchOptions
    from dragoman.translating.translator import Translator as Translator
    from dragoman.translating.translator import translate as translate

__version__ = "0.1.0"


def names_from(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package whose names are imported when they are first used.

    The names are those that the package's `file` imports for type checkers, as `from module import name as name`.
    """
    with open(file, encoding="utf-8") as source:
        homes = {name: home for home, name in re.findall(r"from (\S+) import (\w+) as \2\n", source.read())}

    def look_up(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return look_up, lambda: sorted(homes), list(homes)


if not TYPE_CHECKING:  # type checkers find wrong names where they see no __getattr__
    __getattr__, __dir__, __all__ = names_from(__name__, __file__)
