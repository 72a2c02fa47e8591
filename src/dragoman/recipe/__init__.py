"""The Recipe, and what needs every room at once: a run from data to a scored model, resumed, fine-tuned, demonstrated.

Start with `run.py`: it is the whole path, one call an arrow.
"""

from dragoman.recipe.recipe import Recipe
from dragoman.recipe.run import RunResult, train

__all__ = ["Recipe", "RunResult", "train"]
