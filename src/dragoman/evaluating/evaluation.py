"""Evaluation of a model, or of a file of translations, on a test set. Start with `evaluate`.

An `Evaluation` contains everything that belongs to a score: signature, interval, search, test set, and the
translations, from which all else can be recomputed.
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
from dragoman.evaluating.direction import PairScorer, naming_for, warn_of_exchanged_sides, warn_of_other_languages
from dragoman.evaluating.metrics import (
    SAMPLES,
    LineStatistics,
    Measures,
    Score,
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

FROM_FILE = "translations read from a file"
"""Description of the search of another system."""
WIDEST = 30.0
"""Width of an interval, in points, above which a score says little."""


class EvaluatedTranslator(Protocol):
    """Translator as `evaluate` uses it."""

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
    """Evaluation of one system on one test set."""

    __repr__ = brief_scores

    system: str
    test: ReferenceSet
    search: str
    """Description of the search that produced the translations."""
    hypotheses: tuple[str, ...]
    scores: dict[str, Score]
    """Scores by metric: `bleu`, `chrf`, `ter`."""
    measures: Measures
    """Arguments of the scoring."""
    flags: Mapping[str, int] = field(default_factory=dict)
    """Number of translations with each flag of the translator."""

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
    def line_statistics(cls, evaluations: Sequence[Self]) -> list[dict[str, LineStatistics]]:
        """Return the statistics of each shared metric, line by line, measured as in the first evaluation."""
        first, *others = evaluations
        shared = [name for name in first.scores if all(name in evaluation.scores for evaluation in others)]
        metrics = build_metrics(**{**first.measures, "metrics": shared})
        lines = [(evaluation.hypotheses, evaluation.test.references) for evaluation in evaluations]
        return [{name: statistics(metric, *sides) for name, metric in metrics.items()} for sides in lines]

    @property
    def counts(self) -> dict[str, int]:
        """The number of lines, of references, and of lines with an obvious error."""
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
        """Return plain values for JSON: everything except the translations, with their SHA-256 instead."""
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
    system: EvaluatedTranslator | Path | str,
    test: ReferenceSet | Path | str,
    references: Sequence[Path | str] = (),
    *,
    options: SearchOptions | None = None,
    name: str | None = None,
    samples: int = SAMPLES,
    progress: Progress | bool = True,
    **keywords: Any,
) -> Evaluation:
    """Score `system` on `test`: a translator, a model folder, or a file with one translation per line.

    `test` and `references` are arguments of `read_references`, or `test` is its result. A file is read in the direction
    of the model; a warning is logged if its text seems to have the opposite direction. `samples` is the number of
    bootstrap samples of the intervals, 0 for none. The `keywords` are `metrics`, `lowercase`, `language` (that of the
    translations, if neither model nor test set names it), `tokenizer` (BLEU's, chosen by the language by default), and
    settings of `SearchOptions`, as in `beam_size=8`.

    Raises:
        DataError: the test set cannot be read, or the file has a different number of lines.
        CheckpointError: the folder has no model that can be loaded.
        ConfigError: a metric or tokenizer is unknown.
    """
    measures, settings = split_measures(keywords)
    (options or SearchOptions()).but(**settings)  # raises on unknown names before anything is translated
    build_metrics(**{**measures, "language": UNKNOWN_LANGUAGE})
    flags: Mapping[str, int] = {}
    languages = [measures.get("language", UNKNOWN_LANGUAGE)]
    if isinstance(system, str | Path) and not (Path(system).is_dir() or hub_address(system)):
        test = test if isinstance(test, ReferenceSet) else read_references(test, references)
        hypotheses, search = tuple(read_lines(Path(system))), FROM_FILE
        if len(hypotheses) != len(test):
            raise DataError(
                f"{system} has {len(hypotheses):,} lines but the test set {test.name} {len(test):,}; "
                "it must have one translation for every line"
            )
    else:
        translator = Translator.load(system, progress=progress) if isinstance(system, str | Path) else system
        if not isinstance(test, ReferenceSet):
            known = Naming(expected=translator.languages) if translator is system else naming_for(str(system))
            test = read_references(test, references, known)
        options = (options or translator.options).but(**settings)
        if isinstance(translator, Translator):
            translator = translator.bound(options, (test.source_language, test.language))
        # by its names, which may be wrong, and by its text
        warn_of_other_languages((test.source_language, test.language), translator.languages, test.name)
        if isinstance(translator, PairScorer):
            pairs = [(source, row[0]) for source, row in zip(test.sources, test.references, strict=True)]
            warn_of_exchanged_sides(translator, pairs, test.name)
        translations = translator.translate(test.sources, options, as_progress(progress))
        hypotheses = tuple(translation.text for translation in translations)
        flags = Counter(flag for translation in translations for flag in translation.flags)
        search = f"{describe(options)}, {translator.precision} on {translator.device}"
        languages.append(translator.languages[1])
    languages.append(test.language)
    named = next((language for language in languages if language != UNKNOWN_LANGUAGE), UNKNOWN_LANGUAGE)
    measures["language"] = language_or_script(named, test.references)
    if measures["language"] != named:
        log.info("%s: BLEU splits words as in %s, by the script of the references", test.name, measures["language"])
    scores = score(hypotheses, test.references, samples=samples, **measures)
    widest, size = max((score.high or 0) - (score.low or 0) for score in scores.values()), f"{len(test):,} lines"
    if len(test) == 1:
        log.warning("%s has 1 line, too few to judge by", test.name)
    elif widest > WIDEST:
        log.warning("%s has %s, too few to judge by: an interval is %.0f points wide", test.name, size, widest)
    return Evaluation(
        system=name or (str(system) if isinstance(system, str | Path) else type(system).__name__),
        test=test,
        search=search,
        hypotheses=hypotheses,
        scores=scores,
        measures=measures,
        flags=flags,
    )


def describe(options: SearchOptions) -> str:
    """Describe a search in words.

    >>> describe(SearchOptions(beam_size=1)), describe(SearchOptions(beam_size=5, length_penalty=1.0))
    ('greedy', 'beam 5, length penalty 1')
    """
    if (sampling := options.sampling) is not None:
        nucleus = "" if sampling.top_p == 1 else f", top p {sampling.top_p:g}"
        top_k = "" if sampling.top_k is None else f", top k {sampling.top_k}"
        risk = "" if options.risk_samples is None else f"minimum Bayes risk (chrF), {options.risk_samples:,} samples, "
        return f"{risk}sampled at temperature {sampling.temperature:g}{top_k}{nucleus}, seed {sampling.seed}"
    if options.beam_size == 1:
        return "greedy"
    return f"beam {options.beam_size}, length penalty {options.length_penalty:g}"
