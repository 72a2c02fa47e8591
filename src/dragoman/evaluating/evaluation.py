"""`evaluate`: a model, or a file of its translations, on a test set.

An `Evaluation` holds everything that belongs to a score: signature, interval, search, test set, and the translations,
from which all else can be computed again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from dragoman.brief import brief_scores
from dragoman.errors import DataError
from dragoman.evaluating.direction import Scores, naming_for, warn_of_exchanged_sides, warn_of_other_languages
from dragoman.evaluating.metrics import (
    SAMPLES,
    Measures,
    Score,
    Statistics,
    build_metrics,
    language_or_script,
    score,
    split_measures,
    statistics,
)
from dragoman.evaluating.references import ReferenceSet, read_references
from dragoman.formats.lines import read_lines
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.languages import UNKNOWN_LANGUAGE
from dragoman.progress import Progress, as_progress
from dragoman.store.hub import hub_address
from dragoman.text.columns import Naming

log = logging.getLogger(__name__)

WIDEST = 30.0
"""Points of an interval from which on a score says little."""


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

    __repr__ = brief_scores

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
    def test_name(self) -> str:
        return self.test.name

    @property
    def test_identity(self) -> str:
        return self.test.identity

    @classmethod
    def counted(cls, evaluations: Sequence[Self]) -> list[dict[str, Statistics]]:
        """What each metric that all of them have counted line by line, measured as the first was."""
        shared = [name for name in evaluations[0].scores if all(name in each.scores for each in evaluations)]
        metrics = build_metrics(**{**evaluations[0].measures, "metrics": shared})
        return [
            {name: statistics(metric, each.hypotheses, each.test.references) for name, metric in metrics.items()}
            for each in evaluations
        ]

    @property
    def counts(self) -> dict[str, int]:
        """The number of lines, of references, and of lines with an obvious fault."""
        lines = list(zip(self.test.sources, self.test.references, self.hypotheses, strict=True))
        return {
            "lines": len(lines),
            "references": sum(len(references) for _, references, _ in lines),
            "empty": sum(not written.strip() and bool(source.strip()) for source, _, written in lines),
            "copies of the source": sum(
                bool(source) and written == source and source not in references for source, references, written in lines
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
            "scores": {name: dataclasses.asdict(score) for name, score in self.scores.items()},
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
    progress: Progress | bool = True,
    **keywords: Any,
) -> Evaluation:
    """Scores `system` on `test`: a translator, a model folder, or a file with one translation a line.

    `test` and `references` are what `read_references` takes or returned. A file is read in the direction of the model;
    if its text seems to run the other way, a warning says so. `samples` is the number of bootstrap samples of the
    intervals, 0 for none. The other `keywords` are the `metrics`, whether to `lowercase`, the `language` of the
    translations if neither model nor test set names it, BLEU's `tokenizer`, which otherwise follows from the language,
    and settings of `SearchOptions`, as in `beam_size=8`.

    Raises:
        DataError: the test set cannot be read, or the file has another number of lines.
        CheckpointError: the folder holds no model that can be loaded.
        ConfigError: an unknown metric or tokenizer.
    """
    measures, settings = split_measures(keywords)
    (options or SearchOptions()).but(**settings)  # refuses unknown names before anything is translated
    build_metrics(**{**measures, "language": UNKNOWN_LANGUAGE})
    flags: Mapping[str, int] = {}
    languages = [measures.get("language", UNKNOWN_LANGUAGE)]
    if isinstance(system, str | Path) and not (Path(system).is_dir() or hub_address(system)):
        test = test if isinstance(test, ReferenceSet) else read_references(test, references)
        hypotheses, search = read_hypotheses(Path(system), test), "translations read from a file"
    else:
        translator = Translator.load(system, progress=progress) if isinstance(system, str | Path) else system
        if not isinstance(test, ReferenceSet):
            known = Naming(expected=translator.languages) if translator is system else naming_for(str(system))
            test = read_references(test, references, known)
        _warn_of_direction(translator, test)
        options = (options or translator.options).but(**settings)
        translations = translator.translate(test.sources, options, as_progress(progress))
        hypotheses = tuple(translation.text for translation in translations)
        flags = Counter(flag for translation in translations for flag in translation.flags)
        search = f"{describe(options)}, {translator.precision} on {translator.device}"
        languages.append(translator.languages[1])
    languages.append(test.language)
    named = next((each for each in languages if each != UNKNOWN_LANGUAGE), UNKNOWN_LANGUAGE)
    measures["language"] = language_or_script(named, test.references)
    if measures["language"] != named:
        log.info("%s: BLEU counts words as in %s, by the script of the references", test.name, measures["language"])
    scores = score(hypotheses, test.references, samples=samples, **measures)
    _warn_of_little(test, scores)
    return Evaluation(
        system=name or (str(system) if isinstance(system, str | Path) else type(system).__name__),
        test=test,
        search=search,
        hypotheses=hypotheses,
        scores=scores,
        measures=measures,
        flags=flags,
    )


def _warn_of_little(test: ReferenceSet, scores: Mapping[str, Score]) -> None:
    """Warns of a test set so small that its scores say little."""
    low, high = max(((each.low or 0, each.high or 0) for each in scores.values()), key=lambda ends: ends[1] - ends[0])
    if len(test) == 1 or high - low > WIDEST:
        width = "" if len(test) == 1 else f": an interval is {high - low:.0f} points wide"
        log.warning(
            "%s has %s, too few to judge by%s", test.name, "1 line" if len(test) == 1 else f"{len(test):,} lines", width
        )


def _warn_of_direction(translator: Translates, test: ReferenceSet) -> None:
    """Warns if the test set, by its names or by its text, runs the other way than the model. Names may be wrong."""
    source, target = translator.languages
    warn_of_other_languages((test.source_language, test.language), (source, target), test.name)
    if isinstance(translator, Scores):
        pairs = [(source, row[0]) for source, row in zip(test.sources, test.references, strict=True)]
        warn_of_exchanged_sides(translator, pairs, test.name)


def read_hypotheses(path: Path, test: ReferenceSet) -> tuple[str, ...]:
    """One translation a line, for every line of the test set."""
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
