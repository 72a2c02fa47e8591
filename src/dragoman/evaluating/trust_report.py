"""The report on a model, or on a finished translation, as data: `report.json`, which `report_page` draws.

`runs/report.py` builds it. Scores and flags are those of `evaluate`.
"""

from collections.abc import Sequence
from typing import Literal

from dragoman.config import Settings
from dragoman.evaluating.calibration import Calibration
from dragoman.evaluating.error_kinds import KINDS, LOST, Judge
from dragoman.evaluating.gates import Figure, figures_of
from dragoman.evaluating.metrics import Score
from dragoman.evaluating.scores import StoredEvaluation
from dragoman.evaluating.significance import Comparison
from dragoman.evaluating.speed import Speed
from dragoman.inference.translation import Translation

FORMAT, EXAMPLES = 1, 5


class ShownTranslation(Settings):
    """Translation, with the words that show its error."""

    place: str
    source: str
    text: str
    reference: str
    words: str = ""


class ErrorCount(Settings):
    """Lines with an error of one kind, and the examples with the shortest sources. Precision and recall are those of
    its check, on planted errors.
    """

    kind: str
    meaning: str
    precision: float
    recall: float
    lines: int
    examples: tuple[ShownTranslation, ...]


class Errors(Settings):
    """Errors in one text: numbers of lines with any error and with something lost, and those of each kind, the most
    frequent first. `untested` gives a reason for each kind that cannot be judged.
    """

    lines: int
    wrong: int
    lost: int
    kinds: tuple[ErrorCount, ...]
    untested: dict[str, str]

    @property
    def figures(self) -> dict[str, Figure]:
        """The figures for gates: each kind, `lost` and `errors`."""
        counts = {count.kind: count.lines for count in self.kinds} | {"lost": self.lost, "errors": self.wrong}
        return {name: Figure(count, self.lines) for name, count in counts.items()}

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """The kinds that occur: name, lines, share and meaning."""
        counts = [count for count in self.kinds if count.lines]
        return [(own.kind, f"{own.lines:,}", f"{100 * own.lines / self.lines:.1f} %", own.meaning) for own in counts]


class SetResult(Settings):
    """Results on one test set.

    Attributes:
        samples: some of its texts, evenly spaced.
        known: number of its sources that are in the training text; None if that is not known.
        parts: name and number of lines of parts of it, with their scores, if they have enough lines.
        rivals: other systems on it, with which `comparisons` compare.
    """

    evaluation: StoredEvaluation
    samples: tuple[ShownTranslation, ...]
    known: int | None
    parts: tuple[tuple[str, int, dict[str, Score]], ...]
    errors: Errors
    calibration: Calibration | None
    rivals: tuple[StoredEvaluation, ...]
    comparisons: tuple[Comparison, ...]


class TrustReport(Settings):
    """Report on a model, or on a finished translation, which has `errors` and no `tests`.

    Attributes:
        page: path of the page, next to which is this report as `report.json`.
        text: rows of the report on the training text: what, how much, and why or where.
        curves: names, and step and value, of the losses of training and dev set, and of the chrF of the dev set.
        changes: name of a change of the texts, their number, and the comparison of changed with unchanged ones.
        contrasts: phenomenon, number of pairs of a right and a wrong translation, and of those of which the right one
            is more probable.
        files: name and number of texts of each document, and the reason why one was not judged.
    """

    format: Literal[1] = FORMAT
    version: str
    system: str
    languages: tuple[str, str]
    machine: str
    page: str
    text: tuple[tuple[str, str, str], ...] = ()
    curves: tuple[tuple[str, tuple[tuple[int, float], ...]], ...] = ()
    tests: tuple[SetResult, ...] = ()
    changes: tuple[tuple[str, int, Comparison], ...] = ()
    contrasts: tuple[tuple[str, int, int], ...] = ()
    speeds: tuple[Speed, ...] = ()
    memory_bytes: int | None = None
    files: tuple[tuple[str, int, str], ...] = ()
    errors: Errors | None = None

    @property
    def problems(self) -> list[tuple[str, str]]:
        """The files that were not judged, or not as a whole, each with the reason."""
        return [(name, problem) for name, _, problem in self.files if problem]

    @property
    def errors_by_text(self) -> dict[str, Errors]:
        """The errors of a finished translation, or in each test set."""
        tests = {test.evaluation.test.name: test.errors for test in self.tests}
        return {self.system: self.errors} if self.errors else tests

    @property
    def figures(self) -> dict[str, dict[str, Figure]]:
        """The figures for gates, by text: scores, errors by kind, and flags that have no kind's name."""
        scores = {test.evaluation.test.name: figures_of(test.evaluation) for test in self.tests}
        return {name: scores.get(name, {}) | errors.figures for name, errors in self.errors_by_text.items()}


def example_of(line: Translation, place: str, references: Sequence[str], words: str = "") -> ShownTranslation:
    """Return a translation as an example, with its first reference."""
    reference = next(iter(references), "")
    return ShownTranslation(place=place, source=line.source, text=line.text, reference=reference, words=words)


def count_errors(
    judge: Judge, lines: Sequence[Translation], places: Sequence[str], references: Sequence[Sequence[str]] = ()
) -> Errors:
    """Judge all lines, and count their errors by kind."""
    rows = [*zip(lines, places, references or [()] * len(lines), strict=True)]
    findings = [judge.findings(line, own) for line, _, own in rows]
    counts = list[ErrorCount]()
    for kind in judge.kinds:
        numbers = sorted((n for n, own in enumerate(findings) if kind in own), key=lambda n: len(lines[n].source))
        examples = tuple(example_of(*rows[number], findings[number][kind]) for number in numbers[:EXAMPLES])
        meaning, _, precision, recall = KINDS[kind]
        facts = {"meaning": meaning, "precision": precision, "recall": recall}
        counts.append(ErrorCount(kind=kind, lines=len(numbers), examples=examples, **facts))
    return Errors(
        lines=len(lines),
        wrong=sum(map(bool, findings)),
        lost=sum(not own.keys().isdisjoint(LOST) for own in findings),
        kinds=tuple(sorted(counts, key=lambda count: -count.lines)),
        untested=judge.untested,
    )
