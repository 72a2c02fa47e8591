"""The tasks that a recipe can name, and what a run asks of each before and after training."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.evaluating.evaluation import Evaluation
from dragoman.evaluating.labels_evaluation import LabelEvaluation
from dragoman.progress import Progress
from dragoman.run_folder import RunFolder
from dragoman.runs import fill, labelled, language_model, translation
from dragoman.runs import translation as pairs
from dragoman.runs.choices import Prepared, TextFacts
from dragoman.runs.corpus_task import RunData
from dragoman.runs.language_model import TextEvaluation
from dragoman.runs.recipe import Recipe
from dragoman.text.report import read_labelled_report, read_report, read_text_report
from dragoman.training.objective import Task


def _never_prepared(_recipe: Recipe) -> None:
    """Says that no data was prepared before the run."""


def _no_warning(_run: RunFolder, _recipe: Recipe, _lines: Sequence[Mapping[str, Any]], _best_step: int) -> None:
    """Warns of nothing."""


class TaskKind(NamedTuple):
    """One task. `prepare` and `gather` make something only once: a later call finds it in the run's folder. `score`
    measures anew each time, and writes over the earlier scores. The others write nothing.
    """

    prepare: Callable[[RunFolder, Recipe, Progress], Any]
    """Reads, checks and splits text into the run's `data/`; returns the report on it."""
    is_made_from: Callable[[Path, Recipe], bool]
    """Whether prepared text was made from the text that a recipe names, by the same rules."""
    read_report: Callable[[Path], Any]
    """Reads the report on prepared text."""
    facts: Callable[[RunFolder, Recipe, Any], TextFacts]
    """How much text there is, from the report on it."""
    gather: Callable[[RunFolder, Recipe, Progress], RunData]
    """Trains tokenizers on `data/` and encodes it."""
    start: Callable[[Recipe, Any, str], Task]
    """The task that training asks, made from what `gather` returned, on a device."""
    score: Callable[[RunFolder, Recipe, str, Progress], Sequence[Evaluation | LabelEvaluation | TextEvaluation]]
    """Scores the best model of the run on its test sets, on a device."""
    prepared_before: Callable[[Recipe], Prepared | None] = _never_prepared
    """Languages and rules from the report on a recipe's data, if the data was prepared before the run."""
    warning: Callable[[RunFolder, Recipe, Sequence[Mapping[str, Any]], int], str | None] = _no_warning
    """What to say, by the lines of its metrics, of a run whose best model, of this step, has learnt next to nothing."""


_LABELLED = TaskKind(
    prepare=labelled.prepare,
    is_made_from=labelled.is_made_from,
    read_report=read_labelled_report,
    facts=labelled.facts,
    gather=labelled.gather,
    start=labelled.start,
    score=labelled.score_run,
)
_LANGUAGE_MODEL = TaskKind(
    prepare=language_model.prepare,
    is_made_from=language_model.is_made_from,
    read_report=read_text_report,
    facts=language_model.facts,
    gather=language_model.gather,
    start=language_model.start,
    score=language_model.score_run,
)
KINDS: dict[str, TaskKind] = {
    "translation": TaskKind(
        prepare=pairs.prepare,
        is_made_from=pairs.is_made_from,
        read_report=read_report,
        facts=pairs.facts,
        gather=pairs.gather,
        start=translation.start,
        score=translation.score_run,
        prepared_before=pairs.prepared_before,
        warning=translation.warning_of_nothing_learnt,
    ),
    "language_model": _LANGUAGE_MODEL,
    "fill": _LANGUAGE_MODEL._replace(gather=fill.gather, start=fill.start, score=fill.score_run),
    "classify": _LABELLED,
    "tag": _LABELLED,
}
"""Each task by the name that a recipe gives it."""


def kind_of(recipe: Recipe) -> TaskKind:
    """The task that a recipe names."""
    return KINDS[recipe.task]
