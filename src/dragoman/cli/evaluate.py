"""`dragoman evaluate`: scores of a model, or of a file of translations, with signatures and intervals."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Format, Place, Quiet, Scoring, Search, grouped
from dragoman.cli.terminal.screen import open_screen
from dragoman.errors import ConfigError
from dragoman.files import check_output, write_file

if TYPE_CHECKING:
    from dragoman.evaluating.confusion import Form
    from dragoman.evaluating.evaluation import Evaluation
    from dragoman.evaluating.labels_evaluation import LabelEvaluation
    from dragoman.evaluating.scores import KeptEvaluation
    from dragoman.runs.compare import CompareResult
    from dragoman.runs.language_model import TextEvaluation

Test = Annotated[
    str | None,
    typer.Argument(
        help="Test pairs, a .multiref.tsv, prepared data, or source sentences; for labels, a file of labelled text.",
        show_default="the run's own test set",
    ),
]
References = Annotated[
    list[Path] | None, typer.Argument(help="References of source sentences, a file each.", show_default=False)
]


@grouped
def evaluate(
    system: Annotated[
        Path,
        typer.Argument(
            help="A model, a run, a file of translations, or the name that runs of several seeds share.",
            show_default=False,
        ),
    ],
    place: Place,
    search: Search,
    scoring: Scoring,
    test: Test = None,
    references: References = None,
    against: Annotated[
        Path | None, typer.Option(help="A second system: is the difference between the two significant?")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the translations or labels to this file, one text a line.")
    ] = None,
    scores: Annotated[Path | None, typer.Option(help="Write everything about the scores to this JSON file.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the confusions of a classifier or tagger to this file (.png, .svg, .pdf).")
    ] = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Score translations (BLEU, chrF, TER) or labels (accuracy, F1), with signatures and 95 % intervals."""
    check_picture(picture, system, [path for path in (test, output, scores) if path is not None])
    found = dragoman.compare(
        [path for path in (system, against) if path is not None],
        test,
        references or (),
        overrides=search.overrides,
        output=output,
        scores=scores,
        samples=scoring.samples,
        progress=open_screen(quiet).progress,
        **place.options(),
        **scoring.measures(),
    )
    if output_format == "json":
        console.write_json([evaluation.facts() for evaluation in found.evaluations])
    else:
        show(found)
    draw_picture(found.evaluations[0], picture)


def show(found: "CompareResult") -> None:
    """Scores, comparisons, and how much the seeds of a system differ; of the first system's labels the confusions."""
    from dragoman.evaluating.labels_evaluation import LabelEvaluation

    first = found.evaluations[0]
    show_scores(found.evaluations)
    if len(found.evaluations) > 1 and isinstance(first, LabelEvaluation):
        console.write(f"{first.system}, label by label:")
    show_labels(first)
    for comparison in found.comparisons:
        console.write(str(comparison))
    for system in found.systems:
        for spread in system.spreads:
            console.write(f"{system.name}: {spread}")


def show_scores(evaluations: "Sequence[Evaluation | KeptEvaluation | LabelEvaluation | TextEvaluation]") -> None:
    """Scores as a table, and below it how they came about."""
    from dragoman.evaluating.scores import HEADINGS, score_rows

    rows = [(each.system, *row) for each in evaluations for row in score_rows(each.scores.values())]
    console.write_table(["system", *HEADINGS], rows)
    for each in evaluations:
        counts = ", ".join(f"{count:,} {name}" for name, count in each.counts.items())
        console.write(f"{each.system}: {each.test}; {each.search}; {counts}")


def check_picture(picture: Path | None, system: Path, others: Sequence[Path | str]) -> None:
    """Refuses a picture of an unknown format, one of translations, and one that cannot be written, or only in the place
    of another file.
    """
    from dragoman.runs.compare import gives_labels

    if picture is None:
        return
    if picture.suffix not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"--picture {picture} must end in .png, .svg or .pdf")
    if system.exists() and not gives_labels(system):
        raise ConfigError(f"--picture draws the confusions of labels; {system} gives none")
    check_output(picture, *others)


def draw_picture(found: "Evaluation | LabelEvaluation", picture: Path | None) -> None:
    """Draws what a classifier or tagger takes for what."""
    from dragoman.evaluating.confusion import draw_confusion
    from dragoman.evaluating.labels_evaluation import LabelEvaluation

    if picture is None:
        return
    if not isinstance(found, LabelEvaluation):
        raise ConfigError("--picture draws the confusions of labels; translations have none")
    write_file(picture, draw_confusion(found.confusion, cast("Form", picture.suffix[1:])))


def show_labels(found: "Evaluation | LabelEvaluation") -> None:
    """What a classifier or tagger takes for what, label by label; nothing for translations."""
    from dragoman.evaluating.confusion import confusion_table, worst_confusions
    from dragoman.evaluating.label_metrics import HEADINGS
    from dragoman.evaluating.labels_evaluation import LabelEvaluation

    if not isinstance(found, LabelEvaluation):
        return
    console.write_table(HEADINGS, [row.cells for row in found.entity_rows or found.label_rows])
    table = confusion_table(found.confusion)
    console.write_table(table.headings, table.rows)
    for line in (*filter(None, [table.left_out]), *worst_confusions(found.confusion)):
        console.write(line)
    if found.calibration_error is not None:
        console.write(f"probabilities are off by {found.calibration_error:.1f} points (expected calibration error)")
