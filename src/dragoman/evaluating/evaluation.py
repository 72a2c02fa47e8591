"""Reads `scores.json`, which `write_scores` writes, without loading a model.

`evaluate`: a model, or a file of its translations, on a test set.

An `Evaluation` holds everything that belongs to a score: signature, interval, search, test set, and the translations,
from which all else can be computed again.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, Unpack

import pydantic

from dragoman.config import Settings
from dragoman.documents import read_document, write_json
from dragoman.errors import DataError
from dragoman.evaluating.direction import Scores, naming_for, warn_of_exchanged_sides, warn_of_other_languages
from dragoman.evaluating.metrics import SAMPLES, Measures, Score, build_metrics, score
from dragoman.evaluating.references import ReferenceSet, read_references
from dragoman.evaluating.significance import Comparison
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.progress import Progress, silent
from dragoman.text.columns import Naming
from dragoman.text.languages import UNKNOWN_LANGUAGE
from dragoman.text.lines import read_lines

FORMAT = 1
HIGHEST = 1e6
"""Higher than any score that makes sense; TER has no upper bound."""


def _refuse_impossible(score: Score) -> Score:
    if (score.low is None) is not (score.high is None):
        raise ValueError("low and high must be given together")
    if any(number is not None and not 0 <= number <= HIGHEST for number in (score.value, score.low, score.high)):
        raise ValueError(f"value, low and high must be from 0 to {HIGHEST:,.0f}")
    return score


class KeptTest(Settings, extra="ignore"):
    """The test set of an evaluation."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def stem(self) -> str:
        """`test` of `test.jsonl`."""
        return Path(self.name).stem


class KeptEvaluation(Settings, extra="ignore"):
    """One system on one test set, as `scores.json` keeps it."""

    system: str
    search: str
    """How the translations were found, in words."""
    test: KeptTest
    scores: Annotated[
        dict[str, Annotated[Score, pydantic.AfterValidator(_refuse_impossible)]], pydantic.Field(min_length=1)
    ]
    """By metric."""
    counts: dict[str, int]


class _ScoresFile(Settings, extra="ignore"):
    evaluations: tuple[KeptEvaluation, ...]
    baselines: tuple[KeptEvaluation, ...] = ()


def read_evaluations(path: Path) -> tuple[KeptEvaluation, ...]:
    """The evaluations in a `scores.json`, in its order.

    Raises:
        CheckpointError: the file is missing, foreign or damaged.
    """
    return read_document(path, _ScoresFile, FORMAT).evaluations


def read_baselines(path: Path) -> tuple[KeptEvaluation, ...]:
    """The evaluations of the baselines beside them.

    Raises:
        CheckpointError: the file is missing, foreign or damaged.
    """
    return read_document(path, _ScoresFile, FORMAT).baselines


def read_scores(path: Path) -> dict[str, dict[str, Score]]:
    """The scores in a `scores.json`, by test set (`test` of `test.jsonl`) and metric.

    Raises:
        CheckpointError: the file is missing, foreign or damaged.
    """
    return {found.test.stem: found.scores for found in read_evaluations(path)}


HEADINGS = ("metric", "score", "95 % interval", "signature")


class Translates(Protocol):
    """What `evaluate` needs from a translator."""

    @property
    def options(self) -> SearchOptions: ...
    @property
    def languages(self) -> tuple[str, str]: ...
    @property
    def device(self) -> str: ...
    @property
    def precision(self) -> str: ...

    def translate(self, texts: Sequence[str], options: SearchOptions, progress: Progress) -> Sequence[Translation]: ...


@dataclass(frozen=True)
class Evaluation:
    """One system on one test set."""

    system: str
    test: ReferenceSet
    search: str
    """How the translations were found, in words."""
    hypotheses: tuple[str, ...]
    scores: dict[str, Score]
    """By metric: `bleu`, `chrf`, `ter`."""
    measures: Measures
    """How they were scored."""
    flags: Mapping[str, int] = field(default_factory=dict)
    """How many translations carry each flag of the translator."""

    @property
    def language(self) -> str:
        """The language of the translations."""
        return self.measures.get("language", UNKNOWN_LANGUAGE)

    @property
    def counts(self) -> dict[str, int]:
        """The number of lines, of references, and of lines with an obvious fault."""
        lines = list(zip(self.test.sources, self.test.references, self.hypotheses, strict=True))
        return {
            "lines": len(lines),
            "references": sum(len(references) for _, references, _ in lines),
            "empty": sum(not found.strip() and bool(source.strip()) for source, _, found in lines),
            "copies of the source": sum(
                bool(source) and found == source and source not in references for source, references, found in lines
            ),
            **self.flags,
        }

    def facts(self) -> dict[str, Any]:
        """Everything except the translations, whose SHA-256 it holds, as plain values for JSON."""
        lines = "".join(line + "\n" for line in self.hypotheses)
        return {
            "system": self.system,
            "search": self.search,
            "test": {"name": self.test.name, "lines": len(self.test), "sha256": self.test.identity},
            "language": self.language,
            "scores": {name: dataclasses.asdict(found) for name, found in self.scores.items()},
            "counts": self.counts,
            "hypotheses_sha256": hashlib.sha256(lines.encode()).hexdigest(),
        }


def evaluate(
    system: Translates | Path | str,
    test: ReferenceSet | Path | str,
    references: Sequence[Path | str] = (),
    *,
    options: SearchOptions | None = None,
    name: str | None = None,
    samples: int = SAMPLES,
    progress: Progress = silent,
    **measures: Unpack[Measures],
) -> Evaluation:
    """Scores `system` on `test`: a translator, a model folder, or a file with one translation a line.

    `test` and `references` are what `read_references` takes or returned. A file is read in the direction of the model;
    if its text seems to run the other way, a warning says so. `samples` is the number of bootstrap samples of the
    intervals, 0 for none. `measures` are the `metrics`, whether to `lowercase`, the `language` of the translations if
    neither model nor test set names it, and BLEU's `tokenizer`, which otherwise follows from the language.

    Raises:
        DataError: the test set cannot be read, or the file has another number of lines.
        CheckpointError: the folder holds no model that can be loaded.
        ConfigError: an unknown metric or tokenizer.
    """
    build_metrics(**{**measures, "language": UNKNOWN_LANGUAGE})  # refuses unknown names before anything is translated
    if isinstance(system, str | Path) and not Path(system).is_dir():
        test = test if isinstance(test, ReferenceSet) else read_references(test, references)
        output = _Output(read_hypotheses(Path(system), test), "translations read from a file")
    else:
        translator = Translator.load(system) if isinstance(system, str | Path) else system
        if not isinstance(test, ReferenceSet):
            known = Naming(expected=translator.languages) if translator is system else naming_for(str(system))
            test = read_references(test, references, known)
        _warn_of_direction(translator, test)
        output = _translate(translator, test, options, progress)
    languages = (measures.get("language", UNKNOWN_LANGUAGE), output.language, test.language)
    measures["language"] = next(filter(_known, languages), UNKNOWN_LANGUAGE)
    return Evaluation(
        system=name or (str(system) if isinstance(system, str | Path) else type(system).__name__),
        test=test,
        search=output.search,
        hypotheses=output.hypotheses,
        scores=score(output.hypotheses, test.references, samples=samples, **measures),
        measures=measures,
        flags=output.flags,
    )


def score_rows(scores: Iterable[Score]) -> list[tuple[str, str, str, str]]:
    """Scores as a table, under `HEADINGS`."""
    return [
        (
            found.name,
            found.printed,
            "" if found.low is None else f"{found.low:.1f} to {found.high:.1f}",
            found.signature,
        )
        for found in scores
    ]


class Described(Protocol):
    """An evaluation of any task."""

    def facts(self) -> dict[str, Any]:
        """All that `scores.json` says of it."""
        ...


def write_scores(
    path: Path | str,
    evaluations: Sequence[Described],
    comparisons: Sequence[Comparison] = (),
    baselines: Sequence[Described] = (),
) -> None:
    """Writes `scores.json`: all facts of the evaluations and comparisons, and of baselines, if there are any."""
    facts = {
        "format": FORMAT,
        "evaluations": [evaluation.facts() for evaluation in evaluations],
        "comparisons": [
            {**dataclasses.asdict(found), "better": found.better, "sentence": str(found)} for found in comparisons
        ],
    }
    write_json(path, facts | ({"baselines": [each.facts() for each in baselines]} if baselines else {}))


def read_hypotheses(path: Path, test: ReferenceSet) -> tuple[str, ...]:
    """One translation a line, for every line of the test set.

    Raises:
        DataError: the file cannot be read, or has another number of lines.
    """
    lines = tuple(read_lines(path))
    if len(lines) != len(test):
        raise DataError(
            f"{path} has {len(lines):,} lines but the test set {test.name} {len(test):,}; "
            "it needs one translation for every line"
        )
    return lines


def describe(options: SearchOptions) -> str:
    """A search in words.

    >>> describe(SearchOptions(beam_size=1)), describe(SearchOptions(beam_size=5, length_penalty=1.0))
    ('greedy', 'beam 5, length penalty 1')
    """
    if (sampling := options.sampling) is not None:
        nucleus = "" if sampling.top_p == 1 else f", top p {sampling.top_p:g}"
        likeliest = "" if sampling.top_k is None else f", top k {sampling.top_k}"
        risk = "" if options.risk_samples is None else f"minimum Bayes risk (chrF), {options.risk_samples:,} samples, "
        return f"{risk}sampled at temperature {sampling.temperature:g}{likeliest}{nucleus}, seed {sampling.seed}"
    if options.beam_size == 1:
        return "greedy"
    return f"beam {options.beam_size}, length penalty {options.length_penalty:g}"


class _Output(NamedTuple):
    hypotheses: tuple[str, ...]
    search: str
    language: str = UNKNOWN_LANGUAGE
    flags: Mapping[str, int] = {}


def _translate(
    translator: Translates, test: ReferenceSet, options: SearchOptions | None, progress: Progress
) -> _Output:
    options = options or translator.options
    translations = translator.translate(test.sources, options, progress)
    return _Output(
        tuple(translation.text for translation in translations),
        f"{describe(options)}, {translator.precision} on {translator.device}",
        translator.languages[1],
        Counter(flag for translation in translations for flag in translation.flags),
    )


def _warn_of_direction(translator: Translates, test: ReferenceSet) -> None:
    """Warns if the test set, by its names or by its text, runs the other way than the model. Names may be wrong."""
    source, target = translator.languages
    warn_of_other_languages((test.source_language, test.language), (source, target), test.name)
    if isinstance(translator, Scores):
        pairs = [(source, row[0]) for source, row in zip(test.sources, test.references, strict=True)]
        warn_of_exchanged_sides(translator, pairs, test.name)


def _known(language: str) -> bool:
    return language != UNKNOWN_LANGUAGE
