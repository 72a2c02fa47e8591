"""The Recipe, and what needs every room at once: a run from data to a scored model, resumed, fine-tuned, demonstrated.

Start with `run.py`: it is the whole path, one call an arrow.
"""

from typing import TYPE_CHECKING

from dragoman import names_from

if TYPE_CHECKING:
    from dragoman.recipe.recipe import Recipe as Recipe
    from dragoman.recipe.run import RunResult as RunResult
    from dragoman.recipe.run import train as train

_HOMES = {
    "Recipe": "recipe",
    "RunResult": "run",
    "train": "run",
}

if not TYPE_CHECKING:  # a wrong name is found by the checker
    __getattr__ = names_from(__name__, _HOMES)

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]
