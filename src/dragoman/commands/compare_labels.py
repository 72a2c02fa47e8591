"""Scores one or two classifiers or taggers on labelled text: what `dragoman evaluate` does for such models."""

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dragoman.config import check
from dragoman.errors import CheckpointError, ConfigError
from dragoman.evaluating.labels.evaluation import LabelEvaluation, compare_label_seeds, compare_labels
from dragoman.evaluating.significance import Comparison
from dragoman.files import write_file
from dragoman.predicting.predictor import Predictor
from dragoman.progress import Progress
from dragoman.recipe.recipe import Recipe, read_recipe
from dragoman.recipe.source import apply
from dragoman.run_folder import RunFolder
from dragoman.store import CONFIG, find_model, read_config
from dragoman.tasks.labelled import Example, evaluate_predictor, read_labelled
from dragoman.text.labelled.examples import begun, is_iob1
from dragoman.text.labelled.sources import open_source

HOW_LABELS_ARE_READ = {"text_column", "label_column", "label_depth"}
"""Settings of a run's text that hold for other test sets too."""

log = logging.getLogger(__name__)


class Place(NamedTuple):
    """Where and in which numbers models run."""

    device: str
    precision: str
    progress: Progress
    threads: int | None


def gives_labels(path: Path) -> bool:
    """Whether a path is a classifier or a tagger, or a run that trained one."""
    folders = (path, RunFolder(path).best, RunFolder(path).final)
    return (
        any((folder / CONFIG).is_file() for folder in folders)
        and read_config(find_model(path)).model.labels is not None
    )


def evaluate_systems(
    systems: Sequence[Sequence[Path]], test: Path | str | None, overrides: Sequence[str], samples: int, place: Place
) -> list[tuple[LabelEvaluation, ...]]:
    """Scores each model of each system on a labelled test set; by default on that of the first run.

    Raises:
        ConfigError: a setting that is not about reading, or a system that gives no labels.
        CheckpointError: a system is not a model, or no test set is given and the first system is not a run.
        DataError: the test set cannot be read.
    """
    if foreign := [text for text in overrides if not text.strip().startswith("data.")]:
        raise ConfigError(f"{foreign[0]}: for labels, evaluate takes only settings that say how text is read, data.…")
    first = Predictor.load(systems[0][0], **place._asdict())
    path = Path(test) if test is not None else _own_test(systems[0][0])
    if test is None:
        examples = _read_own(path, first.task, overrides)
    else:
        examples = _read(path, first.task, overrides, RunFolder(systems[0][0]).recipe)

    def evaluated(member: Path) -> LabelEvaluation:
        predictor = Predictor.load(member, **place._asdict())
        if predictor.task != first.task:
            raise ConfigError(f"{systems[0][0]} is for the task {first.task}, but {member} for {predictor.task}")
        _warn_of_unknown(predictor, examples, path)
        return evaluate_predictor(predictor, examples, path, str(member), samples)

    return [tuple(map(evaluated, members)) for members in systems]


def _warn_of_unknown(predictor: Predictor, examples: Sequence[Example], path: Path) -> None:
    """Says which labels of a test set the model can never give."""
    counts = Counter(label for _, labels in examples for label in labels)
    unknown = [label for label in sorted(counts) if label not in predictor.stored.labels.names]
    if unknown:
        log.warning(
            "%s holds %s labels that %s never gives, such as %r; all of them (%s of %s) count as mistakes",
            path,
            f"{len(unknown):,}",
            predictor.stored.folder,
            unknown[0],
            f"{sum(counts[label] for label in unknown):,}",
            f"{counts.total():,}",
        )


def label_comparisons(results: Sequence[tuple[LabelEvaluation, ...]], names: Sequence[str]) -> list[Comparison]:
    """Which of two systems is better, for each metric; nothing for one system."""
    if len(results) < 2:
        return []
    first, second = results
    if len(first) == len(second) == 1:
        return list(compare_labels(first[0], second[0]).values())
    return list(compare_label_seeds(first, second, (names[0], names[1])).values())


def write_labels(path: Path | str, evaluation: LabelEvaluation) -> None:
    """Writes the labels that were found, a line for each text, with a tab between the labels of words."""
    write_file(path, "".join("\t".join(row) + "\n" for row in evaluation.found))


def _own_test(run: Path) -> Path:
    path = RunFolder(run).split("test")
    if not path.is_file():
        raise CheckpointError(f"{run} is no run with a test set of its own; name a test set: labelled text of any kind")
    return path


def _read_own(path: Path, task: str, overrides: Sequence[str]) -> list[Example]:
    if overrides:
        raise ConfigError(
            f"{overrides[0]} says how to read a test set, but none was named; a run's own is read already"
        )
    return list(read_labelled(path.parent, task, path.stem))


def _read(path: Path, task: str, overrides: Sequence[str], recipe: Path) -> list[Example]:
    """A test set, read as the run read its training text, unless the overrides say otherwise."""
    told = read_recipe(recipe).data.model_dump(include=HOW_LABELS_ARE_READ) if recipe.is_file() else {}
    settings = check(apply(overrides, {"data": {**told, "path": str(path)}}), "the command line", Recipe).data
    kind = "tag" if task == "tag" else "classify"
    examples: list[Example] = [
        (each.parts, each.labels) for each in open_source([path], settings, kind).read(Counter())
    ]
    if kind == "tag" and is_iob1([labels for _, labels in examples]):
        log.info("%s: entities begin with I-, as in IOB1; they are scored as if they began with B-", path)
        return [(parts, begun(labels)) for parts, labels in examples]
    return examples
