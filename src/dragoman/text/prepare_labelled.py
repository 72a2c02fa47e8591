"""Prepares labelled text: reads it into memory, checks it, and splits it by label with equal texts together.

A line is `["text", "label"]` for a classifier, `[["word", …], ["label", …]]` for a tagger. Memory holds about 0.4 kB a
text with one label, and 0.11 kB a tagged word.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import ne
from pathlib import Path
from typing import Any, Self

from dragoman.errors import DataError
from dragoman.files import sha256, write_file
from dragoman.progress import Progress
from dragoman.run_folder import split_of
from dragoman.text.column_statistics import count_words, few_single
from dragoman.text.examples import open_source
from dragoman.text.inputs import files_of
from dragoman.text.labels import Example, Task, begun, is_bio
from dragoman.text.phrasebook import Sentence, read_phrasebook
from dragoman.text.report import ExampleTally, LabelledReport, LabelledSplit, read_labelled_report
from dragoman.text.settings import PHRASEBOOK, DataSettings
from dragoman.text.split import held_out_sizes, hold_out, one_form, refuse_too_few, sentence_key

HELD_OUT = 0.1
"""Share of the training text that is held out for dev, and the same again for test. It is twice the share of pairs,
because labelled sets are small and a score on a hundred examples says little."""
LEAST_EXAMPLES = 20
"""Fewer training examples are refused."""
HIDDEN = "-1"
"""The label of a test set whose labels are kept secret."""
LONGEST_LABEL = 80
"""A label with more characters is a text."""

EMPTY = "empty texts, dropped"
KEPT_EMPTY = "empty texts in given sets, kept"
DUPLICATES_DROPPED = "duplicates of an earlier training example, dropped"
DUPLICATES = "duplicates of an earlier training example, kept"
CONFLICTS = "training texts with several labels"

_JSON = json.JSONEncoder(ensure_ascii=False)

Splits = Mapping[str, Sequence[Example]]


class LabelledText:
    """The examples of the training text, as `train`, and of separate sets, in memory."""

    read_report = staticmethod(read_labelled_report)

    def __init__(self, settings: DataSettings, task: Task) -> None:
        self._settings = settings
        self._task: Task = task
        self.examples: dict[str, list[Example]] = {}
        self._names: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        """The way in which each set was read, and why."""
        self._repairs = Counter[str]()

    @classmethod
    def read(cls, settings: DataSettings, task: Task, progress: Progress) -> Self:
        """Read all examples."""
        text = cls(settings, task)
        if settings.path == PHRASEBOOK:
            text.examples, text._reasons = _phrasebook(settings, task), {"train": "the built-in phrasebook"}
        else:
            text._read(progress)
        _refuse_unusable(settings, task, text.examples["train"])
        return text

    @property
    def identity(self) -> str:
        """A hash of the examples as they were read, and of the settings that decide what becomes of them."""
        settings = self._settings
        facts = [self._task, settings.seed, settings.dev_size, settings.test_size, settings.checks.drop_duplicates]
        digest = hashlib.sha256(json.dumps(facts).encode())
        for name, examples in self.examples.items():
            digest.update(json.dumps([name, len(examples)]).encode())
            for example in examples:
                digest.update(json.dumps(example[:2]).encode())
        return digest.hexdigest()

    def changes(self, report: LabelledReport) -> list[str]:
        return [] if report.task == self._task else [f"it is for the task {report.task}"]

    def fill(self, folder: Path) -> LabelledReport:
        """Write the splits into a new folder."""
        splits, origins, findings = self._split()
        labels = dict(sorted(_counted(splits["train"]).items()))
        more, warnings = _judge(splits, labels)
        if empty := findings.get(KEPT_EMPTY):
            warnings.append(
                f"{empty.count:,} examples of given sets have an empty text (first at {empty.first}); they are kept"
            )
        settings = self._settings
        language = "en" if settings.path == PHRASEBOOK else settings.source_language or settings.target_language
        return LabelledReport(
            task=self._task,
            identity=self.identity,
            name=str(settings.path),
            language=language or "und",
            rows={name: len(examples) for name, examples in self.examples.items()},
            reasons=self._reasons,
            labels=labels,
            splits={name: self._write(folder, name, split, origins[name]) for name, split in splits.items()},
            findings=findings | more,
            repairs=dict(sorted((+self._repairs).items())),
            warnings=tuple(warnings),
        )

    def _read(self, progress: Progress) -> None:
        columns = None
        for name, files in files_of(self._settings).items():
            source = open_source(files, self._settings, self._task, columns)
            columns = source.columns if name == "train" else columns
            with progress.track(f"read {source.name}", unit="examples") as advance:
                examples = list(source.read(self._repairs))
                advance(len(examples))
            if not examples:
                raise DataError(f"{source.name} holds no examples")
            if name != "train" and are_hidden(examples):
                self._reasons[name] = f"the labels of {source.name} are hidden ({HIDDEN}), so it is not used"
                continue
            self.examples[name], self._names[name], self._reasons[name] = examples, source.name, source.reason
        if self._task != "tag" or not is_bio(_counted(self.examples["train"])):
            return
        for name, examples in self.examples.items():  # entities are predicted and scored as beginning with B-
            self.examples[name] = [example._replace(labels=begun(example.labels)) for example in examples]
            pairs = zip(examples, self.examples[name], strict=True)
            if count := sum(sum(map(ne, old.labels, new.labels)) for old, new in pairs):
                self._reasons[name] += f"; {count:,} labels I-… that begin an entity became B-…"

    def _split(self) -> tuple[dict[str, Sequence[Example]], dict[str, str], dict[str, ExampleTally]]:
        """Return the splits, their origins, and the examples that were dropped or noted."""
        settings = self._settings
        separate = {name: examples for name, examples in self.examples.items() if name != "train"}
        train, findings = self._cleaned()
        asked = {name: getattr(settings, f"{name}_size") for name in ("test", "dev") if name not in separate}
        wanted, reason = held_out_sizes(asked, len(train), HELD_OUT, "examples")
        refuse_too_few(f"{settings.path} leaves {len(train):,} different examples", len(train), wanted)
        if len(counts := _counted(train)) == 1:
            raise DataError(
                f"{settings.path} has only the label {next(iter(counts))!r}, on all {counts.total():,} "
                f"{_unit(self._task)} (from {train[0].origin} on); there is nothing to distinguish: "
                + _advice(self._task)
            )
        keys = {sentence_key(example.text) for examples in separate.values() for example in examples} if wanted else ()
        sides = hold_out(train, wanted, settings.seed, keys)
        for name, size in wanted.items():
            if size and name not in sides:
                raise DataError(
                    f"{settings.path} has no text to hold out for {name}: each occurs more than {size:,} times, is the "
                    f"only one with its label, or is in a given set; give data.{name}_path or another "
                    f"data.{name}_size"
                )
        held_out = f"held out of the training text with seed {settings.seed}, by label, equal texts together: {reason}"
        origins = {"train": "the rest" if wanted else "given", **dict.fromkeys(wanted, held_out)}
        origins |= {name: f"given: {self._names[name]}" if self._names else "given" for name in separate}
        splits: dict[str, Sequence[Example]] = {
            name: [example for example, side in zip(train, sides, strict=True) if side == name]
            for name in ("train", *wanted)
        }
        splits |= separate
        return {name: splits[name] for name in ("train", "dev", "test", *splits)}, origins, findings

    def _cleaned(self) -> tuple[list[Example], dict[str, ExampleTally]]:
        """Return the training examples without empty texts and, if set, without duplicates; and the findings."""
        drop_duplicates = self._settings.checks.drop_duplicates
        train = [example for example in self.examples["train"] if example.text.strip()]
        empty = {
            name: [example.origin for example in examples if not example.text.strip()]
            for name, examples in self.examples.items()
        }
        known: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
        kept, repeated = [], []
        for example in train:
            if example[:2] in known:
                repeated.append(example.origin)
            if example[:2] not in known or not drop_duplicates:
                kept.append(example)
            known.add(example[:2])
        places = {
            EMPTY: empty.pop("train"),
            KEPT_EMPTY: [origin for origins in empty.values() for origin in origins],
            DUPLICATES_DROPPED if drop_duplicates else DUPLICATES: repeated,
        }
        return kept, _tallies(places)

    def _write(self, folder: Path, name: str, split: Sequence[Example], origin: str) -> LabelledSplit:
        path, is_tagged = split_of(folder, name), self._task == "tag"
        lines: Iterator[list[Any]] = (
            [example.parts, example.labels] if is_tagged else [example.parts[0], example.labels[0]] for example in split
        )
        write_file(path, "".join(_JSON.encode(line) + "\n" for line in lines))
        words = sum(len(example.parts) for example in split) if is_tagged else None
        return LabelledSplit(examples=len(split), words=words, sha256=sha256(path), origin=origin)


def are_hidden(examples: Sequence[Example]) -> bool:
    """Return True if the labels of a set are kept secret, as in the tests of GLUE."""
    return _counted(examples).keys() == {HIDDEN}


def _counted(examples: Sequence[Example]) -> Counter[str]:
    return Counter(label for example in examples for label in example.labels)


def _phrasebook(settings: DataSettings, task: Task) -> dict[str, list[Example]]:
    for name in ("dev_path", "test_path", "dev_size", "test_size", "text_column", "label_column"):
        if getattr(settings, name) is not None:
            raise DataError(f"the phrasebook brings its own sets and labels; leave data.{name} out")
    sets = read_phrasebook()._asdict()
    return {name: [_labelled(sentence, task) for sentence in sentences] for name, sentences in sets.items()}


def _labelled(sentence: Sentence, task: Task) -> Example:
    """Label a sentence of the phrasebook with its topic, or each of its words with its part of speech."""
    file, _, line = sentence.origin.rpartition(":")
    number = int(line.partition(".")[0])
    if task == "classify":
        return Example((sentence.source,), (sentence.topic,), file, (number,))
    words = sentence.words
    return Example(tuple(words), sentence.tags, file, (number,) * len(words))


def _refuse_unusable(settings: DataSettings, task: Task, examples: Sequence[Example]) -> None:
    """Refuse training text that no classifier or tagger can learn from, and text without labels."""
    name, advice = settings.path, _advice(task)
    for example in examples:
        for at, label in enumerate(example.labels):
            if len(label) > LONGEST_LABEL or (task == "classify" and count_words(label) > 10):
                raise DataError(
                    f"{example.place(at)} has a whole text as its label ({label[:40]!r} …); are the columns swapped? "
                    + advice
                )
    counts = _counted(examples)
    if counts.total() >= LEAST_EXAMPLES and (2 * len(counts) > counts.total() or not few_single(counts)):
        swapped = task == "classify" and 5 * len({example.text for example in examples}) <= len(examples)
        raise DataError(
            f"{name} has {len(counts):,} labels for {counts.total():,} {_unit(task)} (the first is "
            f"{examples[0].labels[0][:40]!r} at {examples[0].origin}): "
            f"{'text and label look swapped' if swapped else 'they look like text, not labels'}; {advice}"
        )
    if len(examples) < LEAST_EXAMPLES:
        what = "labelled texts" if task == "classify" else "labelled sentences (a blank line ends each)"
        raise DataError(f"{name} holds {len(examples)} {what}; at least {LEAST_EXAMPLES} are needed to learn from")


def _unit(task: Task) -> str:
    return "words" if task == "tag" else "examples"


def _advice(task: Task) -> str:
    if task == "tag":
        return "say which column holds the label: --set data.label_column=NUMBER"
    return "say which columns hold them: --set data.text_column=NAME --set data.label_column=NAME"


def _judge(splits: Splits, labels: Mapping[str, int]) -> tuple[dict[str, ExampleTally], list[str]]:
    """Return the contradictions, leaks and labels unknown to training in the final splits, and warnings about them."""
    keys = {name: [sentence_key(example.text) for example in split] for name, split in splits.items()}
    # Words are compared exactly, because case and marks decide their labels.
    train = splits["train"]
    texts = [
        example.parts if len(example.parts) > 1 else key for example, key in zip(train, keys["train"], strict=True)
    ]
    labels_of = defaultdict[object, set[tuple[str, ...]]](set)
    for example, text in zip(train, texts, strict=True):
        labels_of[text].add(example.labels)
    conflicts = [example.origin for example, text in zip(train, texts, strict=True) if len(labels_of[text]) > 1]
    places, warnings = {CONFLICTS: conflicts}, list[str]()
    for name, split in splits.items():
        for earlier in ("train", "dev"):
            if name == "train" or earlier == name:
                continue
            known = set(keys[earlier])
            shared = [example.origin for example, key in zip(split, keys[name], strict=True) if key in known]
            places[f"{name} texts that are also in {earlier}"] = shared
            if shared:
                why = "" if earlier == "train" else "the best checkpoint is chosen on dev, so "
                warnings.append(
                    f"{len(shared):,} of {len(split):,} {name} texts are also in {earlier} (first at {shared[0]}): "
                    f"{why}a score on them is too high"
                )
        unknown = [example.origin for example in split if not labels.keys() >= set(example.labels)]
        places[f"{name} examples with a label that train lacks"] = unknown
        if unknown:
            warnings.append(
                f"{len(unknown):,} of {len(split):,} {name} examples have a label that train lacks (first at "
                f"{unknown[0]}): they can't be predicted, and count as wrong"
            )
    warnings += _nearly_equal(splits)
    if conflicts:
        warnings.append(
            f"{len(conflicts):,} training examples have a text that has another label elsewhere in train (first at "
            f"{conflicts[0]})"
        )
    return _tallies(places), warnings


def _nearly_equal(splits: Splits) -> Iterator[str]:
    """Yield warnings about labels that differ only in case or spaces."""
    counts, first, forms = Counter[str](), dict[str, str](), defaultdict[str, list[str]](list)
    for example in chain(*splits.values()):
        counts.update(example.labels)
        for at, label in enumerate(example.labels):
            if label not in first:
                first[label] = example.place(at)
    for label in sorted(counts, key=lambda label: -counts[label]):
        visible = filter(str.isprintable, one_form(label).casefold())
        forms["".join("".join(visible).split())].append(label)
    for labels in forms.values():
        if len(labels) > 1:
            named = ", ".join(f"{label!r} ({counts[label]:,}, first at {first[label]})" for label in labels)
            yield f"labels that differ only in case or spaces: {named}; write them the same way if they mean the same"


def _tallies(places: Mapping[str, Sequence[str]]) -> dict[str, ExampleTally]:
    return {kind: ExampleTally(count=len(where), first=where[0]) for kind, where in places.items() if where}
