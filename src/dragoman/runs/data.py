"""The text of a run: prepared, tokenized and encoded by its task, or found in the run's folder."""

import logging
from typing import Any

from dragoman.errors import DataError
from dragoman.recipe.recipe import Recipe
from dragoman.runs.options import RunContext
from dragoman.tasks.corpus_task import RunData
from dragoman.tasks.kinds import kind_of
from dragoman.training.task import BatchSource

log = logging.getLogger(__name__)


def prepare(context: RunContext, recipe: Recipe) -> Any:
    """Reads, checks and splits text into the run's folder, unless it is there already; returns the report on it.

    Raises:
        DataError: the text cannot be used, or has changed. With `anyway` the run goes on with the data in its folder.
    """
    run, kind = context.run, kind_of(recipe)
    try:
        return kind.prepare(run, recipe, context.progress)
    except DataError as error:
        if not run.data.exists():
            raise
        try:
            report = kind.read_report(run.data)
        except DataError as damage:
            raise DataError(f"{damage}; --fresh begins a new run") from None
        if not context.anyway:
            raise DataError(
                f"{error}; --anyway goes on with the data that the run holds, --fresh begins a new run"
            ) from None
        log.warning("%s; going on with the data that the run holds", error)
        return report


def gather(context: RunContext, recipe: Recipe) -> RunData:
    """Trains tokenizers and encodes text, unless they are in the run's folder already."""
    return kind_of(recipe).gather(context.run, recipe, context.progress)


def training_batches(data: RunData, recipe: Recipe) -> BatchSource:
    """The batches of the training corpus, in the order that the seed gives."""
    return kind_of(recipe).start(recipe, data, "cpu").batches
