"""The tasks that a recipe can name."""

from dragoman.progress import Progress, silent
from dragoman.run_folder import RunFolder
from dragoman.runs.fill import FillTask
from dragoman.runs.labelled import LabelledTask
from dragoman.runs.language_model import LanguageModelTask
from dragoman.runs.recipe import Recipe
from dragoman.runs.task import Task
from dragoman.runs.translation import TranslationTask

TASKS: dict[str, type[Task]] = {
    "translation": TranslationTask,
    "language_model": LanguageModelTask,
    "fill": FillTask,
    "classify": LabelledTask,
    "tag": LabelledTask,
}


def task_of(run: RunFolder, recipe: Recipe, device: str = "cpu", progress: Progress = silent) -> Task:
    """The task that a recipe names, for one run."""
    return TASKS[recipe.task](run, recipe, device, progress)
