"""The text of a run as its task reads it: prepared, tokenized and encoded, or found in the run's folder."""

import logging
from typing import Any

from dragoman.errors import DataError
from dragoman.recipe.recipe import Recipe
from dragoman.runs.options import RunContext
from dragoman.tasks.kinds import kind_of
from dragoman.tasks.run_data import RunData
from dragoman.training.task import BatchSource

log = logging.getLogger(__name__)


def prepare(context: RunContext, recipe: Recipe) -> Any:
    """Text read, checked and split into the run's folder, or found there; returns the report on it.

    Raises:
        DataError: the text cannot be used, or is not what was found there; with `anyway` the run goes on with what was
            found.
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
    """Tokenizers trained and text encoded, or found in the run's folder."""
    return kind_of(recipe).gather(context.run, recipe, context.progress)


def training_batches(data: RunData, recipe: Recipe) -> BatchSource:
    """The batches of the training corpus, in the order that the seed gives."""
    return kind_of(recipe).start(recipe, data, "cpu").batches
