"""Reports on whether to trust a model (`report`)."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import groupby
from operator import gt
from pathlib import Path
from typing import Any

import pydantic

import dragoman
from dragoman.config import check, choose
from dragoman.errors import ConfigError, DataError
from dragoman.evaluating.calibration import calibrate
from dragoman.evaluating.direction import naming_for
from dragoman.evaluating.error_kinds import Judge
from dragoman.evaluating.evaluation import Evaluation, evaluate
from dragoman.evaluating.meaning import BASELINE
from dragoman.evaluating.metrics import summary
from dragoman.evaluating.references import ReferenceSet, own_test_set, read_references
from dragoman.evaluating.report_page import PAGE, check_folder, write_report
from dragoman.evaluating.scores import StoredEvaluation, read_comet
from dragoman.evaluating.significance import Comparison, compare_outputs, compare_systems
from dragoman.evaluating.speed import Speed, measure
from dragoman.evaluating.strata import LETTERS, changed_texts, strata
from dragoman.evaluating.trust_report import SetResult, TrustReport, count_errors, example_of
from dragoman.files import make_folders
from dragoman.formats.lines import read_lines
from dragoman.formats.terms import read_terms
from dragoman.inference.documents import translate_file
from dragoman.inference.options import DRAWS, SearchOptions
from dragoman.inference.resumable import identity
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.languages import base_language
from dragoman.memory import peak_memory_bytes
from dragoman.progress import Progress, as_progress
from dragoman.run_folder import RunFolder
from dragoman.runs.compare import training_pairs
from dragoman.runs.directed import test_set
from dragoman.runs.metrics_log import dev_curve, training_losses
from dragoman.runs.status import read_facts
from dragoman.serialization import read_object
from dragoman.system import describe
from dragoman.text.prepared import evenly_spaced_from_first
from dragoman.text.report import direction_folders, read_report, report_rows
from dragoman.text.settings import ReadingSettings, reading_overrides

LEAST_PART, CHANGED, TIMED, SAMPLED, POINTS = 20, 120, 100, 3, 200
"""Least number of lines with scores of their own; numbers of texts that are changed in each way, timed, and shown as
samples, and of points of the curve of the training loss."""
COMMON, LEAST_COMMON = 0.02, 20
"""Share and number of the sources above which a word alone makes them similar to no other."""
CONTRASTS = Path(__file__).parents[1] / "evaluating"
_STORED = pydantic.TypeAdapter(Translation)


def report(
    system: Path | str,
    test: Path | str | None = None,
    references: Sequence[Path | str] = (),
    *,
    against: Sequence[Path | str] = (),
    comet: Path | str | None = None,
    terms: Path | str | None = None,
    folder: Path | str | None = None,
    overrides: Sequence[str] = (),
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    progress: Progress | bool = True,
) -> TrustReport:
    """Write a report on whether to trust a model into `folder`, by default `report` in its run: a page and its JSON.

    `test`, `references` and `overrides` are those of `compare`; by default, all test sets of the run are reported. The
    translations are kept in the folder, so a later call makes none again, and a stopped one goes on. On the first test
    set, the model is also compared with the closest sentences of its training text, and with those `against`: models,
    or files of translations. `comet` is what `comet-score --to_json` wrote for the first test set, `terms` a file of
    terms.

    Raises:
        ConfigError: the run is not finished or has no test set, or a setting is unknown.
        CheckpointError: there is no model that can be loaded.
        DataError: a file cannot be read, or does not fit the test set.
    """
    run, progress = RunFolder(system), as_progress(progress)
    folder = Path(folder or (run.path if run.is_run else Path()) / "report")
    check_folder(folder, test, *references, *against, comet, terms)
    if comet is not None:
        read_object(Path(comet))  # raises before anything is translated
    if run.is_run and (status := read_facts(run)["status"]) != "finished":
        raise ConfigError(f"{run} is not finished ({status}); finish it with: dragoman train {run}")
    if test is None:
        own_test_set(system)  # raises if there is none
    reading, search = reading_overrides(overrides)
    changes = {"terms": read_terms(Path(terms))} if terms else {}
    place = {"device": device, "precision": precision, "progress": progress, "threads": threads}
    translator = Translator.load(system, **place)
    options = choose(SearchOptions, "decode", search, translator.options, **changes)
    options = options.but(align=options.pivot in (None, "none"))  # through a pivot, no words are aligned
    settings = choose(ReadingSettings, "data", reading)
    tests = _test_sets(run, translator.bound(options), test, references, settings)
    if not tests:
        raise ConfigError(f"{system} has no test set with a pair; name a file")
    make_folders(folder)
    work = _Work(folder, options, progress)
    sets = [work.translated(translator, test_set, str(system)) for test_set in tests]
    first, training = sets[0], _TrainingText(run)
    if comet is not None:
        scores = {**first.evaluation.scores, "comet": read_comet(Path(comet), first.evaluation.hypotheses)}
        sets[0] = first = replace(first, evaluation=replace(first.evaluation, scores=scores))
    rivals = [work.closest(first, training)] if training.counts else []
    for path in against:
        if Path(path).is_dir():
            rivals.append(work.translated(Translator.load(path, **place), first.test, str(path)).evaluation)
        else:
            rivals.append(evaluate(path, first.test, progress=progress))
    made = TrustReport(
        version=dragoman.__version__,
        system=str(system),
        languages=translator.languages,
        machine=describe(),
        page=str(folder / PAGE),
        text=tuple(training.rows),
        curves=tuple(training.curves),
        tests=tuple(work.judged(own, training, rivals if own is first else ()) for own in sets),
        changes=tuple(work.changes(first)),
        contrasts=tuple(_contrasts(first.translator)),
        speeds=tuple(work.speeds(first)),
        memory_bytes=peak_memory_bytes(translator.device),
    )
    return write_report(made)


def _test_sets(
    run: RunFolder,
    translator: Translator,
    test: Path | str | None,
    references: Sequence[Path | str],
    settings: ReadingSettings,
) -> list[ReferenceSet]:
    """Return the test set that is named, or all of a run's, of which `test` is the first."""
    if test is not None:
        naming = naming_for(run.path, settings.naming)._replace(expected=translator.languages)
        return [read_references(test, references, naming, settings.format, settings.encoding_errors)]
    sets = list[ReferenceSet]()
    for direction, folder in direction_folders(run.data).items():
        directed = translator.bound(translator.options, direction) if translator.directions else translator
        for path in sorted(folder.glob("*.jsonl"), key=lambda path: (path.stem != "test", path.stem)):
            if not path.stem.startswith(("train", "dev")) and path.stat().st_size:
                sets.append(test_set(directed, path))
    return sets


class _TrainingText:
    """The training text of a run, as far as its folder holds it: counts of its words in lower case, the rows of the
    report on it, and the curves of the training.
    """

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.counts = Counter(word for source, _ in training_pairs(run) for word in LETTERS.findall(source.lower()))
        folders = direction_folders(run.data).values() if run.report.is_file() else ()
        self.rows = [row for folder in folders for row in report_rows(read_report(folder))]
        dev = [(f"dev {name}", dev_curve(run, f"dev_{name.lower()}")) for name in ("loss", "chrF")]
        curves = [("training loss", training_losses(run, POINTS)), *dev]
        self.curves = [(name, tuple(curve)) for name, curve in curves if curve]

    def count_of(self, sources: Sequence[str]) -> int | None:
        """Count the sources that are in the training text; return None if that is not known."""
        known = {*sources}.intersection(source for source, _ in training_pairs(self.run))
        return sum(source in known for source in sources) if self.counts else None

    def closest(self, sources: Sequence[str]) -> list[str]:
        """Return for each source the translation of the training source with the most similar words."""
        rows = [{*LETTERS.findall(source.lower())} for source in sources]
        numbers_of, best = defaultdict[str, list[int]](list), [(0.0, "")] * len(rows)
        for number, row in enumerate(rows):
            for word in row:
                numbers_of[word].append(number)
        most = max(LEAST_COMMON, COMMON * len(rows))
        index = {word: numbers for word, numbers in numbers_of.items() if len(numbers) <= most}
        for source, target in training_pairs(self.run):
            words = {*LETTERS.findall(source.lower())}
            for number in {number for word in words for number in index.get(word, ())}:
                similarity = 2 * len(words & rows[number]) / (len(words) + len(rows[number]))
                best[number] = max(best[number], (similarity + (source == sources[number]), target))
        return [target for _, target in best]


@dataclass(frozen=True)
class _TranslatedSet:
    """A test set with its translations and scores, and the translator that made them. `evaluate` takes it for a
    translator.
    """

    translator: Translator
    test: ReferenceSet
    translations: Sequence[Translation]
    evaluation: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.translator, name)

    def translate(self, *_: Any) -> Sequence[Translation]:
        return self.translations


@dataclass(frozen=True)
class _Work:
    """The measurements of a report, with one folder and one search."""

    folder: Path
    options: SearchOptions
    progress: Progress

    def translated(self, translator: Translator, test: ReferenceSet, name: str) -> _TranslatedSet:
        """Return a test set with translations, which are kept in the folder, and scores."""
        translator = translator.bound(self.options, (test.source_language, test.language))
        facts = {"test": test.identity, "device": translator.device, "precision": translator.precision}
        asked = identity(translator.folders, None, self.options, **facts, languages=translator.languages)
        key = sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]
        path = self.folder / f"{Path(test.name).stem}-{key}.jsonl"
        if not path.is_file():
            how = {"write": lambda _, line: [json.dumps(asdict(line))], "total": len(test)}
            translate_file(translator, path, test.sources, path, self.options, self.progress, **how)
        made: Any = _TranslatedSet(translator, test, _stored_translations(path, len(test)))
        return replace(made, evaluation=evaluate(made, test, options=self.options, name=name, progress=self.progress))

    def closest(self, own: _TranslatedSet, training: _TrainingText) -> Evaluation:
        """Evaluate the baseline that translates each text as the closest sentence of the training text."""
        made: Any = replace(own, translations=[Translation("", text) for text in training.closest(own.test.sources)])
        evaluation = evaluate(made, own.test, name="the closest training sentence", progress=self.progress)
        return replace(evaluation, search=f"{BASELINE}, by the words of the sources", flags={})

    def judged(self, own: _TranslatedSet, training: _TrainingText, rivals: Sequence[Evaluation]) -> SetResult:
        """Return the results on a test set: parts, errors, calibration, and the comparisons with rivals."""

        def scores_of(lines: Sequence[int]) -> dict[str, Any]:
            metrics = counts.items() if len(lines) >= LEAST_PART else ()
            return {name: summary(replace(whole, lines=whole.lines[lines])) for name, whole in metrics}

        test, lines = own.test, own.translations
        if any(getattr(self.options, name) for name in DRAWS):  # a sample has improbable words by design
            lines = [replace(line, word_log_probs=()) for line in lines]
        judge = Judge(lines, own.translator.languages, self.options.terms)
        (counts,) = Evaluation.line_statistics([replace(own.evaluation, scores=dict.fromkeys(("bleu", "chrf")))])
        parts = strata(test.sources, judge.names, training.counts).items()
        places = [f"line {number:,}" for number in range(1, len(test) + 1)]
        rows = [*zip(own.translations, places, test.references, strict=True)]
        comparisons = [compare_systems([own.evaluation], [rival], metrics=[*counts]).values() for rival in rivals]
        return SetResult(
            evaluation=_stored(own.evaluation),
            samples=tuple(example_of(*row) for row in evenly_spaced_from_first(rows, SAMPLED)),
            known=training.count_of(test.sources),
            parts=tuple((name, len(lines), scores_of(lines)) for name, lines in parts),
            errors=count_errors(judge, own.translations, places, test.references),
            calibration=calibrate(own.translations, counts["chrf"].scores(counts["chrf"].lines).tolist()),
            rivals=tuple(map(_stored, rivals)),
            comparisons=tuple(comparison for row in comparisons for comparison in row),
        )

    def changes(self, own: _TranslatedSet) -> Iterator[tuple[str, int, Comparison]]:
        """Yield the cost of changes of the sources, in points of chrF."""
        rows = zip(own.test.sources, own.translations, own.test.references, strict=True)
        lines = evenly_spaced_from_first([(source, line.text, row[0]) for source, line, row in rows], CHANGED)
        for name, changed, fit in changed_texts(lines, own.translator.languages):
            if len(changed) >= LEAST_PART:
                sources, *expected = zip(*changed, strict=True)
                made = own.translator.translate(sources, self.options.but(align=False), self.progress)
                sides = [fit(line.text) for line in made], *expected
                yield name, len(changed), compare_outputs(*sides, names=(name, "as typed"), metrics=["chrf"])["chrf"]

    def speeds(self, own: _TranslatedSet) -> list[Speed]:
        """Time the translation of texts one by one, and of all together."""
        texts = evenly_spaced_from_first([source for source in own.test.sources if source.strip()], TIMED)
        if not texts:
            return []
        searches = [self.options.but(align=False)]
        return measure({own.evaluation.system: own.translator}, texts, searches=searches, rounds=1)[0]


def _stored_translations(path: Path, count: int) -> list[Translation]:
    """Return the translations that an earlier report has kept; raise `DataError` if they are damaged."""
    with suppress(pydantic.ValidationError):
        lines = [_STORED.validate_json(line) for line in read_lines(path)]
        if len(lines) == count:
            return lines
    raise DataError(f"{path}, which holds the translations of an earlier report, is damaged; delete it")


def _stored(evaluation: Evaluation) -> StoredEvaluation:
    return check(evaluation.facts(), evaluation.system, StoredEvaluation)


def _contrasts(translator: Translator) -> Iterator[tuple[str, int, int]]:
    """Compare the probabilities of contrastive pairs (Sennrich 2017), if there is a list for these languages."""
    path = CONTRASTS / "contrasts.{}-{}.tsv".format(*map(base_language, translator.languages))
    rows = [line.split("\t") for line in read_lines(path)] if path.is_file() else []
    for phenomenon, group in groupby(rows, lambda row: row[0]):
        _, sources, *sides = zip(*group, strict=True)
        right, wrong = ([line.log_prob for line in translator.score(sources, side)] for side in sides)
        yield phenomenon, len(sources), sum(map(gt, right, wrong))
