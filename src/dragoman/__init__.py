"""Dragoman: train, run, judge and understand your own translation model.

The public functions are the commands: `dragoman.train("phrasebook")` gives the same run as `dragoman train phrasebook`.
Importing this package loads none of its rooms; a name is looked up where it lives when it is first used.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.errors import Error as Error
    from dragoman.evaluating.evaluation import evaluate as evaluate
    from dragoman.evaluating.pairs import score as score
    from dragoman.evaluating.speed import benchmark as benchmark
    from dragoman.explaining.heads import judge_heads as judge_heads
    from dragoman.explaining.recording import explain_choice as explain_choice
    from dragoman.explaining.recording import record as record
    from dragoman.explaining.space import load_embeddings as load_embeddings
    from dragoman.explaining.writing import write_record as write_record
    from dragoman.exporting.export import export as export
    from dragoman.exporting.marian import convert as convert
    from dragoman.inference.generator import Generator as Generator
    from dragoman.inference.generator import generate as generate
    from dragoman.inference.options import GenerateOptions as GenerateOptions
    from dragoman.inference.options import SearchOptions as SearchOptions
    from dragoman.inference.predictor import Predictor as Predictor
    from dragoman.inference.predictor import predict as predict
    from dragoman.inference.translator import Translator as Translator
    from dragoman.inference.translator import translate as translate
    from dragoman.installation import doctor as doctor
    from dragoman.memory import keep_freed_memory as keep_freed_memory
    from dragoman.runs.compare import compare as compare
    from dragoman.runs.fine_tune import fine_tune as fine_tune
    from dragoman.runs.folder import list_runs as list_runs
    from dragoman.runs.forecast import forecast as forecast
    from dragoman.runs.quantize import quantize as quantize
    from dragoman.runs.recipe import Recipe as Recipe
    from dragoman.runs.recipe import list_settings as list_settings
    from dragoman.runs.train import train as train
    from dragoman.runs.train import train_seeds as train_seeds
    from dragoman.store import load_model as load_model
    from dragoman.store.merging import average as average
    from dragoman.store.merging import merge as merge
    from dragoman.text.prepare import prepare_data as prepare_data
    from dragoman.tokenizing.train_tokenizer import train_tokenizer as train_tokenizer

__version__ = "0.1.0"


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package whose names are imported when they are first used.

    `homes` lists the names by the module of the package in which they live.
    """
    home_of = {name: f"{package}.{home}" for home, names in homes.items() for name in names}

    def look_up(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home_of[name]), name)

    return look_up, lambda: sorted(home_of), list(home_of)


if not TYPE_CHECKING:  # type checkers find wrong names where they see no __getattr__
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "evaluating.speed": ["benchmark"],
            "runs.compare": ["compare"],
            "installation": ["doctor"],
            "runs.fine_tune": ["fine_tune"],
            "runs.forecast": ["forecast"],
            "store.merging": ["average", "merge"],
            "exporting.marian": ["convert"],
            "exporting.export": ["export"],
            "runs.quantize": ["quantize"],
            "evaluating.pairs": ["score"],
            "runs.train": ["train_seeds", "train"],
            "tokenizing.train_tokenizer": ["train_tokenizer"],
            "errors": ["Error"],
            "evaluating.evaluation": ["evaluate"],
            "explaining.space": ["load_embeddings"],
            "explaining.heads": ["judge_heads"],
            "explaining.recording": ["explain_choice", "record"],
            "explaining.writing": ["write_record"],
            "inference.generator": ["Generator", "generate"],
            "inference.options": ["GenerateOptions", "SearchOptions"],
            "memory": ["keep_freed_memory"],
            "inference.predictor": ["Predictor", "predict"],
            "runs.recipe": ["Recipe", "list_settings"],
            "runs.folder": ["list_runs"],
            "store": ["load_model"],
            "text.prepare": ["prepare_data"],
            "inference.translator": ["Translator", "translate"],
        },
    )
