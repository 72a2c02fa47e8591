"""The labelled text that settings name, read and checked: examples of the training text and of the sets beside it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.progress import Progress
from dragoman.text.conll import open_words
from dragoman.text.labelled.addresses import files_of
from dragoman.text.labelled.columns import few_single
from dragoman.text.labelled.tables import open_texts
from dragoman.text.labels import Columns, Example, Source, Task, begun, is_iob1, unbegun
from dragoman.text.phrasebook import Sentence, read_phrasebook
from dragoman.text.settings import PHRASEBOOK, DataSettings

LEAST_EXAMPLES = 20
"""Fewer training examples are refused."""
LONGEST_LABEL = 80
"""A label with more characters is a text."""
BEGUN = "labels I-… that begin an entity, now B-…"
_OPEN = {"classify": open_texts, "tag": open_words}


class Taken(NamedTuple):
    """What was read: the examples of each set that is given, how they were read, and what was mended."""

    examples: dict[str, list[Example]]
    reasons: dict[str, str]
    repairs: dict[str, int]


def take(settings: DataSettings, task: Task, progress: Progress) -> Taken:
    """Reads the training text, as `train`, and the sets beside it, into memory.

    Raises:
        DataError: a file cannot be read, or what it holds is not labelled text.
    """
    if settings.path == PHRASEBOOK:
        taken = Taken(_phrasebook(settings, task), {"train": "the built-in phrasebook"}, {})
    else:
        taken = _read(settings, task, progress)
    _refuse_unusable(settings, task, taken.examples["train"])
    return taken


def open_source(files: Sequence[Path], settings: DataSettings, task: Task, seen: Columns | None = None) -> Source:
    """Opens files that are read one after another; their columns are those of the first."""
    first = _OPEN[task](files[0], settings, seen)
    others = [_OPEN[task](file, settings, first.columns) for file in files[1:]]

    def read(repairs: Counter[str]) -> Iterator[Example]:
        for source in (first, *others):
            yield from source.read(repairs)

    reason = first.reason + (f"; the first of {len(files)} files" if others else "")
    return Source(first.name, reason, read, first.columns)


def _phrasebook(settings: DataSettings, task: Task) -> dict[str, list[Example]]:
    for name in ("dev_path", "test_path", "dev_size", "test_size", "text_column", "label_column"):
        if getattr(settings, name) is not None:
            raise DataError(f"the phrasebook brings its own sets and labels; leave data.{name} out")
    sets = read_phrasebook()._asdict()
    return {name: [_labelled(sentence, task) for sentence in sentences] for name, sentences in sets.items()}


def _labelled(sentence: Sentence, task: Task) -> Example:
    """The topic of a sentence of the phrasebook, or the part of speech of each of its words."""
    file, _, line = sentence.origin.rpartition(":")
    if task == "classify":
        return Example((sentence.source,), (sentence.topic,), file, (int(line),))
    words = sentence.words
    return Example(tuple(words), sentence.tags, file, (int(line),) * len(words))


def _read(settings: DataSettings, task: Task, progress: Progress) -> Taken:
    taken, repairs, seen = Taken({}, {}, {}), Counter[str](), None
    for name, files in files_of(settings).items():
        source = open_source(files, settings, task, seen)
        seen = source.columns if name == "train" else seen
        with progress.track(f"read {source.name}", unit="examples") as advance:
            examples = list(source.read(repairs))
            advance(len(examples))
        if not examples:
            raise DataError(f"{source.name} holds no examples")
        taken.examples[name], taken.reasons[name] = examples, source.reason
    if task == "tag" and is_iob1([example.labels for example in taken.examples["train"]]):
        _begin_entities(taken, repairs)
    taken.repairs.update(sorted((+repairs).items()))
    return taken


def _begin_entities(taken: Taken, repairs: Counter[str]) -> None:
    """Rewrites all sets from IOB1 to IOB2, the scheme in which entities are predicted and scored."""
    for name, examples in taken.examples.items():
        count = sum(1 for example in examples for _ in unbegun(example.labels))
        taken.examples[name] = [example._replace(labels=begun(example.labels)) for example in examples]
        if count:
            taken.reasons[name] += f"; entities begin with I-, as in IOB1: {count:,} of these labels became B-"
        repairs[BEGUN] += count


def _refuse_unusable(settings: DataSettings, task: Task, examples: Sequence[Example]) -> None:
    """Refuses training text that no classifier or tagger can learn from, and what is no labelled text."""
    name = settings.path
    counts = Counter(label for example in examples for label in example.labels)
    unit = "words" if task == "tag" else "examples"
    for example in examples:
        _refuse_long_label(example, task)
    if counts.total() >= LEAST_EXAMPLES and (2 * len(counts) > counts.total() or not few_single(counts)):
        swapped = task == "classify" and 5 * len({example.text for example in examples}) <= len(examples)
        raise DataError(
            f"{name} has {len(counts):,} labels for {counts.total():,} {unit} (the first is {_short(examples[0])}): "
            + ("text and label look swapped" if swapped else "they look like text, not labels")
            + f"; {_advice(task)}"
        )
    if len(examples) < LEAST_EXAMPLES:
        what = "labelled texts" if task == "classify" else "labelled sentences (a blank line ends each)"
        raise DataError(f"{name} holds {len(examples)} {what}; at least {LEAST_EXAMPLES} are needed to learn from")
    refuse_one_label(settings, task, examples)


def refuse_one_label(settings: DataSettings, task: Task, examples: Sequence[Example]) -> None:
    """Refuses training examples that all have one label.

    Raises:
        DataError: names the label.
    """
    counts = Counter(label for example in examples for label in example.labels)
    if len(counts) == 1:
        unit = "words" if task == "tag" else "examples"
        raise DataError(
            f"{settings.path} has only the label {next(iter(counts))!r}, on all {counts.total():,} {unit} (from "
            f"{examples[0].origin} on); there is nothing to tell apart: {_advice(task)}"
        )


def _refuse_long_label(example: Example, task: Task) -> None:
    for at, label in enumerate(example.labels):
        if len(label) > LONGEST_LABEL or (task == "classify" and len(label.split()) > 10):
            raise DataError(
                f"{example.place(at)} has a whole text as its label ({label[:40]!r} …); are the columns swapped? "
                + _advice(task)
            )


def _advice(task: Task) -> str:
    if task == "tag":
        return "say which column holds the label: --set data.label_column=NUMBER"
    return "say which columns hold them: --set data.text_column=NAME --set data.label_column=NAME"


def _short(example: Example) -> str:
    label = example.labels[0]
    return f"{label[:40]!r} at {example.origin}"
