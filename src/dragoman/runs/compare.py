"""Scores of one system on a test set, or a comparison of two: the command `dragoman evaluate`.

A system is a model, a file of translations, or the runs that `train_seeds` made under one name. Classifiers and taggers
are scored on labelled text.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.config import as_overrides, check, choose
from dragoman.errors import CheckpointError, ConfigError, DataError
from dragoman.evaluating.direction import naming_for
from dragoman.evaluating.evaluation import Evaluation, evaluate
from dragoman.evaluating.labels_evaluation import LabelEvaluation
from dragoman.evaluating.metrics import METRICS, SAMPLES, Measures, not_comparable, split_measures
from dragoman.evaluating.references import ReferenceSet, has_directions, own_test_set, read_references, sets_in
from dragoman.evaluating.scores import write_scores
from dragoman.evaluating.significance import Comparison, SeedScores, check_seeds, compare_systems
from dragoman.files import check_output, same_file, write_file
from dragoman.inference.options import SearchOptions
from dragoman.inference.predictor import Predictor
from dragoman.inference.translator import Translator
from dragoman.languages import SEVERAL, UNKNOWN_LANGUAGE
from dragoman.progress import Progress
from dragoman.run_folder import RunFolder
from dragoman.runs.labelled import Example, evaluate_predictor, read_labelled
from dragoman.runs.lookup import apply_overrides
from dragoman.runs.recipe import LABEL_SETTINGS, Recipe, read_recipe
from dragoman.runs.train import seed_runs
from dragoman.store.description import CONFIG, read_config
from dragoman.store.folder import find_model
from dragoman.store.hub import hub_address
from dragoman.text.columns import Naming
from dragoman.text.examples import open_source
from dragoman.text.labels import begun, is_bio
from dragoman.text.prepare_labelled import HIDDEN, are_hidden
from dragoman.text.prepared import parts_of, read_pairs
from dragoman.text.report import direction_folders
from dragoman.text.settings import ReadingSettings, reading_overrides

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SystemResult:
    """Evaluations of one system."""

    name: str
    evaluations: tuple[Evaluation | LabelEvaluation, ...]
    """One evaluation, or one for each seed."""

    @property
    def spreads(self) -> list[SeedScores]:
        """Scores of the seeds, for each metric; empty if there is one seed."""
        first, *others = self.evaluations
        return [
            SeedScores(first.test_name, [evaluation.scores[metric] for evaluation in self.evaluations])
            for metric in (first.scores if others else ())
        ]


@dataclass(frozen=True)
class CompareResult:
    """Evaluations of one or two systems, and the comparisons between two."""

    def __repr__(self) -> str:
        return f"CompareResult({', '.join(map(repr, self.evaluations))})"

    systems: tuple[SystemResult, ...]
    comparisons: tuple[Comparison, ...]
    """One for each metric; empty if there is one system."""

    @property
    def evaluations(self) -> tuple[Evaluation | LabelEvaluation, ...]:
        """The evaluations of all systems, one after another."""
        return tuple(evaluation for system in self.systems for evaluation in system.evaluations)


def compare(
    systems: Path | str | Sequence[Path | str],
    test: Path | str | None = None,
    references: Sequence[Path | str] = (),
    *,
    overrides: Sequence[str] = (),
    output: Path | str | None = None,
    scores: Path | str | None = None,
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    samples: int = SAMPLES,
    progress: Progress | bool = True,
    **keywords: Any,
) -> CompareResult:
    """Score one or two systems on a test set, and test whether the difference between two is significant.

    `test` and `references` are those of `read_references`; by default, the test set of the first system's run.
    `overrides` are `dotted.key=value`: `data.` settings say how to read the test set, `decode.` settings how models
    search. The translations of the first system are written to `output`, and everything about the scores to `scores`,
    as JSON. `samples` and the other `keywords` are those of `evaluate`.

    Classifiers and taggers are scored on labelled text, by default that of their run.

    Raises:
        ConfigError: there are not one or two systems, only one of two has several seeds, or a setting, metric or
            tokenizer is unknown.
        CheckpointError: a system is neither a file nor a model that can be loaded.
        DataError: the test set cannot be read, or a file of translations has another number of lines.
    """
    compared = [_System.find(path) for path in ([systems] if isinstance(systems, str | Path) else systems)]
    outputs = [path for path in (output, scores) if path is not None]
    _check(compared, output, scores, [*([] if test is None else [test]), *references])
    measures, search = split_measures(keywords)
    overrides = as_overrides({f"decode.{name}": value for name, value in search.items()}, overrides)
    place = {"device": device, "precision": precision, "progress": progress, "threads": threads}
    request = _CompareRequest(test, references, outputs, overrides, samples, place, measures)
    labelled = gives_labels(compared[0].members[0])
    scorers = {"": _label_scorer(compared, request)} if labelled else _translation_scorers(compared, request)
    if output is not None and len(scorers) > 1:
        raise ConfigError(f"--output takes one direction; name its languages, of{','.join(scorers)}")
    tests = [
        tuple(SystemResult(f"{system.name}{of}", tuple(map(evaluate_one, system.members))) for system in compared)
        for of, evaluate_one in scorers.items()
    ]
    comparisons = tuple(chain.from_iterable(map(_comparisons, tests)))
    result = CompareResult(tuple(chain.from_iterable(tests)), comparisons)
    first = result.evaluations[0]
    if output is not None:
        is_labels = isinstance(first, LabelEvaluation)
        lines = ["\t".join(row) for row in first.predicted] if is_labels else first.hypotheses
        write_file(output, "".join(f"{line}\n" for line in lines))
    if scores is not None:
        write_scores(scores, result.evaluations, result.comparisons)
    return result


class _CompareRequest(NamedTuple):
    """The arguments that decide how systems are scored."""

    test: Path | str | None
    references: Sequence[Path | str]
    outputs: Sequence[Path | str]
    overrides: Sequence[str]
    samples: int
    place: dict[str, Any]
    """Device and precision of models, and their progress: arguments of `Translator.load`."""
    measures: Measures


def _translation_scorers(
    systems: Sequence[_System], request: _CompareRequest
) -> dict[str, Callable[[Path], Evaluation]]:
    """Return functions that score a model or a file of translations, by the direction of the test set if several."""
    _refuse_writers(systems)
    reading, search = reading_overrides(request.overrides)
    settings = choose(ReadingSettings, "data", reading)
    naming = _naming(systems, settings.naming, request.measures.get("language", UNKNOWN_LANGUAGE))
    source = own_test_set(systems[0].members[0]) if request.test is None else request.test
    asked = choose(SearchOptions, "decode", [text for text in search if "_language" in text])
    if (known := naming.expected) is not None and SEVERAL in known:
        naming = naming._replace(expected=(asked.source_language or known[0], asked.target_language or known[1]))
    sources = sets_in(Path(source), asked) if has_directions(Path(source)) else [source]
    how = request.references, naming, settings.format, settings.encoding_errors
    tests = [read_references(source, *how) for source in sources]
    for path in request.outputs:
        check_output(path, *(file for test_set in tests for file in test_set.files))
    load = lru_cache(maxsize=2)(partial(Translator.load, **request.place))

    def evaluated(test_set: ReferenceSet, of: str, path: Path) -> Evaluation:
        translator = load(path) if path.is_dir() else None
        _warn_of_known_text(path, test_set)
        options = choose(SearchOptions, "decode", search, translator and translator.options)
        facts = {
            "options": options,
            "name": f"{path}{of}",
            "samples": request.samples,
            "progress": request.place["progress"],
        }
        return evaluate(translator or path, test_set, **facts, **request.measures)

    names = [f" {test_set.source_language}-{test_set.language}" if len(tests) > 1 else "" for test_set in tests]
    return {of: partial(evaluated, test_set, of) for of, test_set in zip(names, tests, strict=True)}


def training_pairs(run: Path | RunFolder) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a run's training text, as far as its folder holds them."""
    data = RunFolder(run).data
    folders = direction_folders(data).values() if has_directions(data) else [data]
    return chain.from_iterable(map(read_pairs, chain.from_iterable(parts_of(folder, "train") for folder in folders)))


def _warn_of_known_text(run: Path, test: ReferenceSet) -> None:
    sources = set(test.sources)
    known = {source for source, _ in training_pairs(run) if source in sources}
    if count := sum(source in known for source in test.sources):
        log.warning(
            "%s of %s sentences of %s are in the text that %s was trained on, so the score is too high",
            f"{count:,}",
            f"{len(test):,}",
            test.name,
            run,
        )


def _label_scorer(systems: Sequence[_System], request: _CompareRequest) -> Callable[[Path], LabelEvaluation]:
    """Return a function that scores a classifier or tagger on one test set, by default that of the first run."""
    measures = request.measures
    if request.references:
        raise ConfigError("labelled text holds its own labels; give one test set, without references")
    is_about_translations = tuple(measures.get("metrics", METRICS)) != METRICS or measures.get("lowercase")
    if is_about_translations or measures.get("language", UNKNOWN_LANGUAGE) != UNKNOWN_LANGUAGE:
        raise ConfigError("--metric, --language and --lowercase are about translations; labels have accuracy and F1")
    if foreign := [text for text in request.overrides if not text.strip().startswith("data.")]:
        raise ConfigError(f"{foreign[0]}: for labels, evaluate takes only settings that say how text is read, data.…")
    first, place = systems[0].members[0], request.place
    task = Predictor.load(first, **place).task
    path, examples = _read_labels(first, task, request)

    def evaluated(member: Path) -> LabelEvaluation:
        predictor = Predictor.load(member, **place)
        if predictor.task != task:
            raise ConfigError(f"{first} is for the task {task}, but {member} for {predictor.task}")
        _warn_of_unknown(predictor, examples, path)
        return evaluate_predictor(predictor, examples, path, str(member), request.samples)

    return evaluated


def _refuse_writers(systems: Sequence[_System]) -> None:
    """Refuse models that are measured only by their own run, and those that predict labels if others translate."""
    for path in (path for system in systems for path in system.members if path.is_dir()):
        model = read_config(find_model(path)).model
        if model.labels is not None:
            raise ConfigError(
                f"{path} holds a model that predicts labels, but {systems[0].name} translates; compare like with like"
            )
        if model.family != "encoder_decoder":
            does = "fills in words" if model.family == "encoder" else "writes"
            raise ConfigError(f"{path} holds a model that {does}; its scores are in scores.json of its run")


class _System(NamedTuple):
    """One system, and the models or files that are evaluated for it."""

    name: str
    members: tuple[Path, ...]
    """A model or a file of translations, or the runs of several seeds."""

    @classmethod
    def find(cls, path: Path | str) -> _System:
        name, path = str(path), Path(path) if hub_address(path) is None else find_model(path)
        return cls(name, (path,) if path.exists() else tuple(seed_runs(path)) or (path,))


def _check(
    systems: Sequence[_System], output: Path | str | None, scores: Path | str | None, texts: Sequence[Path | str]
) -> None:
    """Refuse, before any work, systems and paths that cannot be evaluated, compared or written."""
    if not 1 <= len(systems) <= 2:
        raise ConfigError(f"one system can be scored, or two compared, but {len(systems)} were given")
    seeds = [len(system.members) for system in systems]
    if len(systems) == 2 and max(seeds) > 1:
        check_seeds((seeds[0], seeds[1]), (systems[0].name, systems[1].name))
    if output is not None and seeds[0] > 1:
        raise ConfigError(f"--output takes the translations of one run, not of {seeds[0]}; name one of them")
    translations = [path for system in systems for path in system.members if path.is_file()]
    for path in filter(None, (output, scores)):
        check_output(path, *texts, *translations)
    if output is not None and scores is not None and same_file(output, scores):
        raise ConfigError(f"--output and --scores both name {scores}; name two files")
    for path in (path for system in systems for path in system.members if not path.is_file()):
        find_model(path)


def _naming(systems: Sequence[_System], named: Naming, language: str) -> Naming:
    """Return the names of the test set's columns, from the settings and from the first system that is a model."""
    models = [path for system in systems for path in system.members if path.is_dir()]
    if models:
        return naming_for(models[0], named)
    return named._replace(target_language=named.target_language or (None if language == UNKNOWN_LANGUAGE else language))


def _comparisons(results: Sequence[SystemResult]) -> tuple[Comparison, ...]:
    if len(results) < 2:
        return ()
    first, second = results
    evaluations = (*first.evaluations, *second.evaluations)
    for metric in first.evaluations[0].scores:
        if ways := not_comparable(evaluation.scores[metric] for evaluation in evaluations):
            log.warning(
                "the scores by %s are counted in different ways (%s); the comparison counts both as for %s",
                metric,
                ways,
                first.name,
            )
    return tuple(compare_systems(first.evaluations, second.evaluations, names=(first.name, second.name)).values())


def gives_labels(path: Path) -> bool:
    """Return True if a path is a classifier or a tagger, or a run that trained one."""
    folders = (path, RunFolder(path).best, RunFolder(path).final)
    return (
        any((folder / CONFIG).is_file() for folder in folders)
        and read_config(find_model(path)).model.labels is not None
    )


def _warn_of_unknown(predictor: Predictor, examples: Sequence[Example], path: Path) -> None:
    counts = Counter(label for _, labels in examples for label in labels)
    unknown = [label for label in sorted(counts) if label not in predictor.stored.labels.names]
    if unknown:
        log.warning(
            "%s holds %s labels that %s never predicts, such as %r; all of them (%s of %s) count as mistakes",
            path,
            f"{len(unknown):,}",
            predictor.stored.folder,
            unknown[0],
            f"{sum(counts[label] for label in unknown):,}",
            f"{counts.total():,}",
        )


def _read_labels(first: Path, task: str, request: _CompareRequest) -> tuple[Path, list[Example]]:
    """Read the test set that is named, else that of the first system's run. One that is named is read as the run read
    its training text, unless the overrides say otherwise.
    """
    run = RunFolder(first)
    if request.test is None:
        path = run.split("test")
        if not path.is_file():
            raise CheckpointError(f"{run} is not a run with a test set; name one: labelled text of any kind")
        if request.overrides:
            raise ConfigError(
                f"{request.overrides[0]} says how to read a test set, but none was named; a run's is prepared already"
            )
        return path, list(read_labelled(path.parent, task, path.stem))
    path = Path(request.test)
    kept = read_recipe(run.recipe).data.model_dump(include=set(LABEL_SETTINGS)) if run.recipe.is_file() else {}
    tables = apply_overrides(request.overrides, {"data": {**kept, "path": str(path)}})
    kind, settings = "tag" if task == "tag" else "classify", check(tables, "the command line", Recipe).data
    labelled = list(open_source([path], settings, kind).read(Counter()))
    if are_hidden(labelled):
        raise DataError(f"the labels of {path} are hidden ({HIDDEN}); name a set that has them")
    examples = [(text.parts, text.labels) for text in labelled]
    if kind == "tag" and is_bio({label for _, labels in examples for label in labels}):
        return path, [(parts, begun(labels)) for parts, labels in examples]
    return path, [*examples]
