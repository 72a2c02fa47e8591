"""Commands that measure: `evaluate`, `score` and `benchmark`."""

import dataclasses
import logging
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import dragoman
from dragoman.cli.console import as_json, is_verbose, note, open_screen, write, write_result, write_table
from dragoman.cli.options import (
    Adapter,
    BeamSize,
    Device,
    Format,
    LengthPenalty,
    Model,
    Pivot,
    Precision,
    Quiet,
    Ray,
    Set,
    SourceLanguage,
    TargetLanguage,
    Threads,
    Verbose,
    keywords,
    on_workers,
    one_or_two,
    refuse_beam_of_samples,
    typed,
)
from dragoman.cli.streams import standard_input, writer
from dragoman.errors import ConfigError
from dragoman.files import check_output, write_file
from dragoman.formats.registry import DATA_SUFFIXES

if TYPE_CHECKING:
    from dragoman.evaluating.confusion import PictureFormat
    from dragoman.evaluating.evaluation import Evaluation
    from dragoman.evaluating.labels_evaluation import LabelEvaluation
    from dragoman.evaluating.pairs import ScoredPair
    from dragoman.evaluating.scores import StoredEvaluation
    from dragoman.evaluating.speed import Benchmark, MedianRange
    from dragoman.inference.documents import Arriving
    from dragoman.progress import Progress
    from dragoman.runs.compare import CompareResult
    from dragoman.runs.language_model import TextEvaluation
    from dragoman.text.readers import Pair
    from dragoman.text.settings import ReadingSettings

    AnyEvaluation = Evaluation | StoredEvaluation | LabelEvaluation | TextEvaluation

log = logging.getLogger(__name__)

NAMED = 5
"""Number of pairs without a score that are named; the others are counted."""


Require = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GATE",
        help="End with exit code 9 if a figure misses it, as in 'bleu >= 40' or 'lost <= 0.5%'; may be repeated.",
    ),
]


def evaluate(
    system: Annotated[
        Path,
        typer.Argument(
            help="A model, a run, a file of translations, or the name that runs of several seeds share.",
            show_default=False,
        ),
    ],
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    pivot: Pivot = None,
    overrides: Set = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="bleu, chrf or ter; may be repeated.", show_default="all three")
    ] = None,
    language: Annotated[str, typer.Option(help="Language of the translations.", show_default="from the names")] = "und",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case in BLEU and chrF, as old papers do.")] = (
        False
    ),
    samples: Annotated[int, typer.Option(min=0, help="Bootstrap samples for the intervals.")] = 1000,
    test: Annotated[
        str | None,
        typer.Argument(
            help="Test pairs, a .multiref.tsv, prepared data, or source sentences; for labels, a file of labelled "
            "text.",
            show_default="the run's own test set",
        ),
    ] = None,
    references: Annotated[
        list[Path] | None, typer.Argument(help="References of source sentences, a file each.", show_default=False)
    ] = None,
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
    require: Require = None,
    output_format: Format = "text",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Score translations (BLEU, chrF, TER) or labels (accuracy, F1), with 95 % intervals."""
    options = keywords(locals(), "system", "against", "metric", "picture", "require", "output_format")
    from dragoman.evaluating.gates import check_gates, figures_of, parse_gates

    gates = parse_gates(require or ())
    if picture is not None:
        check_picture(picture, system, [path for path in (test, output, scores) if path is not None])
    if metric:
        options["metrics"] = metric
    refuse_beam_of_samples(beam_size, overrides or ())
    result = dragoman.compare([path for path in (system, against) if path is not None], **options)
    write_result(output_format, [evaluation.facts() for evaluation in result.evaluations], lambda: show(result))
    if picture is not None:
        draw_picture(result.evaluations[0], picture)
    own = (evaluation for tested in result.systems[:: 2 if against else 1] for evaluation in tested.evaluations)
    check_gates(gates, {f"{tested.system} on {tested.test_name}": figures_of(tested) for tested in own})


def check_picture(picture: Path, system: Path, files: Sequence[Path | str]) -> None:
    """Refuse a picture of an unknown format or of translations, and a path that is not writable or one of `files`."""
    from dragoman.runs.compare import gives_labels

    if picture.suffix not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"--picture {picture} must end in .png, .svg or .pdf")
    if system.exists() and not gives_labels(system):
        raise ConfigError(f"--picture draws the confusions of labels; {system} gives none")
    check_output(picture, *files)


def draw_picture(evaluation: "Evaluation | LabelEvaluation", picture: Path) -> None:
    from dragoman.evaluating.confusion import draw_confusion
    from dragoman.evaluating.labels_evaluation import LabelEvaluation

    if not isinstance(evaluation, LabelEvaluation):
        raise ConfigError("--picture draws the confusions of labels; translations have none")
    write_file(picture, draw_confusion(evaluation.confusion, cast("PictureFormat", picture.suffix[1:])))


def show(result: "CompareResult") -> None:
    """Write scores, comparisons, differences between seeds, and the confusions if the first system gives labels."""
    from dragoman.evaluating.labels_evaluation import LabelEvaluation

    first = result.evaluations[0]
    show_scores(result.evaluations)
    if isinstance(first, LabelEvaluation):
        if len(result.evaluations) > 1:
            write(f"{first.system}, label by label:")
        show_labels(first)
    for comparison in result.comparisons:
        write(str(comparison))
    for system in result.systems:
        for spread in system.spreads:
            write(f"{system.name}: {spread}")
    baselines = always_one_label(first) if isinstance(first, LabelEvaluation) else ()
    show_meaning([*(system.evaluations[0] for system in result.systems), *baselines])


def show_scores(evaluations: "Sequence[AnyEvaluation]") -> None:
    """Write scores as a table, and below it how they were obtained. Signatures are details, and so are the names of
    test sets if each system has one.
    """
    from dragoman.evaluating.meaning import test_name
    from dragoman.evaluating.scores import HEADINGS, score_rows

    columns = len(HEADINGS) if is_verbose() else -1
    systems = [(evaluation.system, test_name(evaluation)) for evaluation in evaluations]
    names = ["system", "test set"][: 1 + (len({*systems}) > len({name for name, _ in systems}))]
    rows = [
        (*system[: len(names)], *row[:columns])
        for system, evaluation in zip(systems, evaluations, strict=True)
        for row in score_rows(evaluation.scores.values())
    ]
    write_table([*names, *HEADINGS[:columns]], rows)
    for evaluation in evaluations:
        counts = ", ".join(f"{number:,} {name}" for name, number in evaluation.counts.items())
        names = dict.fromkeys([evaluation.system, str(evaluation.test)])  # both may have the same name
        write(f"{': '.join(names)}; {evaluation.search}; {counts}")


def show_meaning(evaluations: "Sequence[AnyEvaluation]") -> None:
    """Write what the scores mean, a sentence for each model. The evaluations may include baselines."""
    from dragoman.evaluating.meaning import BASELINE, in_short

    models = [evaluation for evaluation in evaluations if not evaluation.search.startswith(BASELINE)]
    for model in models:
        if meaning := in_short(model, evaluations):
            write(f"in short{f', {model.system}' if len(models) > 1 else ''}: {meaning}")


def always_one_label(evaluation: "LabelEvaluation") -> "list[LabelEvaluation]":
    """Evaluate the simplest baseline: the most frequent label everywhere."""
    from dragoman.evaluating.labels_evaluation import judge_baselines

    label, _ = Counter(label for row in evaluation.gold for label in row).most_common(1)[0]
    labels = [[label] * len(row) for row in evaluation.gold]
    return judge_baselines(evaluation, {f"saying {label} always": labels}, samples=0)


def show_labels(evaluation: "LabelEvaluation") -> None:
    """Write scores and confusions label by label."""
    from dragoman.evaluating.confusion import confusion_table, worst_confusions
    from dragoman.evaluating.label_metrics import HEADINGS

    write_table(HEADINGS, [row.cells for row in evaluation.entity_rows or evaluation.label_rows])
    table = confusion_table(evaluation.confusion)
    write_table(table.headings, table.rows)
    for line in (*filter(None, [table.left_out]), *worst_confusions(evaluation.confusion)):
        write(line)
    if evaluation.calibration_error is not None:
        write(f"probabilities are off by {evaluation.calibration_error:.1f} points (expected calibration error)")


def score(
    model: Model,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Pairs: a file ({DATA_SUFFIXES}, also .gz), two aligned "
            "files, the beginning of their names, or a pattern in quotes.",
            show_default="standard input, a source, a tab and a target a line",
        ),
    ] = None,
    at_least: Annotated[
        float | None,
        typer.Option(
            max=0.0,
            help="Write only the pairs whose mean log-probability a token (log_prob / tokens) is at least this, as -2.",
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write to this file, whole or not at all.")] = None,
    length_penalty: LengthPenalty = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    settings: Set = None,
    adapter: Adapter = None,
    ray: Ray = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Score given translations, one a line: score, log_prob, tokens, source, target. Or keep the probable pairs."""
    from dragoman.config import choose
    from dragoman.evaluating.pairs import open_scored
    from dragoman.text.settings import ReadingSettings, reading_overrides

    progress = open_screen(quiet)
    reading_settings, overrides = reading_overrides(settings or ())
    how_to_read = choose(ReadingSettings, "data", reading_settings)
    chosen = {"source_language": source_language, "target_language": target_language, "length_penalty": length_penalty}
    search = {name: value for name, value in chosen.items() if value is not None}
    line_of = partial(line_if_kept, at_least=at_least, output_format=output_format)
    if ray is not None:
        options = on_workers(device, precision, threads, adapter, overrides, **search)
        score_on_cluster(ray, model, data, output, how_to_read, line_of, output_format, progress, options)
        return
    reading = open_scored(model, one_or_two(data), how_to_read) if data else None
    if output is not None:
        check_output(output, *(reading.files if reading else ()))
    pairs = typed_pairs() if reading is None else reading
    scored = dragoman.score(model, pairs, overrides, device, precision, threads, progress, adapter, **search)
    write_scored(scored, line_of, output, at_least)


def write_scored(
    scored: "Iterable[ScoredPair]",
    line_of: "Callable[[ScoredPair], str]",
    output: Path | None,
    at_least: float | None,
) -> None:
    """Write the line of every pair that has one, and sum up the scores in notes."""
    means = array("d")
    kept = problems = 0
    with writer(output) as write_lines:
        for pair in scored:
            if pair.mean_log_prob is not None:
                means.append(pair.mean_log_prob)
            elif (problems := problems + 1) <= NAMED:
                log.warning("%s has no score: %s", pair.origin, pair.problem)
            if line := line_of(pair):
                kept += 1
                write_lines(line)
    pairs = len(means) + problems
    if problems:
        fate = "are dropped" if at_least is not None else "are written without figures"
        log.warning("%s of %s pairs have no score and %s", f"{problems:,}", f"{pairs:,}", fate)
    if at_least is not None:
        note(f"{kept:,} of {pairs:,} pairs have a mean log-probability of at least {at_least:g}")
    if len(means) > 1:
        tenths = quantiles(means, n=10)
        note("score: log_prob over the length penalty; both are logarithms of a probability, likelier the nearer to 0")
        note(f"mean log-probability a token: median {tenths[4]:.2f}; a tenth of the pairs lies below {tenths[0]:.2f}")


def score_on_cluster(
    ray: str,
    model: Path,
    data: list[str] | None,
    output: Path | None,
    reading: "ReadingSettings",
    line_of: "Callable[[ScoredPair], str]",
    output_format: Format,
    progress: "Progress",
    options: dict[str, Any],
) -> None:
    """Score the pairs of shards into a folder."""
    if not data or output is None:
        raise ConfigError("--ray scores many files: name them by a pattern as DATA, and a folder as --output")
    files, suffix = (typed(model), one_or_two(data), typed(output)), "jsonl" if output_format == "json" else "tsv"
    pairs, counts = dragoman.score_shards(*files, ray, reading, line_of, suffix, progress, **options)
    note(f"{counts['kept']:,} of {pairs:,} pairs are written; {counts['problem']:,} have no score")


def typed_pairs() -> "Arriving[Pair]":
    """Return the pairs of standard input: the text before and after the first tab of each line."""
    from dragoman.inference.documents import Arriving
    from dragoman.text.readers import Pair

    def pair(number: int, line: str) -> Pair:
        source, tab, rest = line.partition("\t")
        fault = "" if tab else "no tab between source and target"
        return Pair(source, rest.partition("\t")[0], f"standard input:{number}", fault)

    lines = standard_input("type pairs, each a source, a tab and a target; Ctrl-D ends")
    return Arriving(map(pair, count(1), lines), lines.has_come)


def line_if_kept(pair: "ScoredPair", at_least: float | None, output_format: Format) -> str:
    """Return the line of a pair: JSON with all facts, or cells between tabs, with the figures first. If only probable
    pairs are kept, a line has no figures, and the line of any other pair is empty.
    """
    mean = pair.mean_log_prob
    if at_least is not None and not (mean is not None and mean >= at_least):
        return ""
    if output_format == "json":
        return as_json({**dataclasses.asdict(pair), "mean_log_prob": mean}) + "\n"
    figures = ["", "", ""]
    if at_least is not None:
        figures = []
    elif pair.score is not None:
        figures = [f"{pair.score:.4f}", f"{pair.log_prob:.4f}", str(len(pair.tokens))]
    return "\t".join([*figures, cell(pair.source), cell(pair.target)]) + "\n"


def cell(text: str) -> str:
    """Return a text as one cell of a line; tabs and line breaks in it become spaces."""
    from dragoman.surface.sentences import one_line

    return one_line(text.replace("\t", " "))[0]


def benchmark(
    models: Annotated[
        list[Path], typer.Argument(help="One model or run, or several side by side.", show_default=False)
    ],
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            "--input", help="Sentences to translate, one a line.", show_default="the test set of the first run"
        ),
    ] = None,
    sentences: Annotated[int, typer.Option(min=1, help="Translate at most this many of them.")] = 500,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds in which the models take turns.")] = 3,
    overrides: Set = None,
    output: Annotated[Path | None, typer.Option(help="Write everything that was measured to this JSON file.")] = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Measure tokens a second, latency and memory: greedy and with a beam of 4, or as --set says."""
    result = dragoman.benchmark(**keywords(locals(), "output_format"))
    write_result(output_format, result.facts(), lambda: show_benchmark(result))


def show_benchmark(result: "Benchmark") -> None:
    rows = [
        (
            speed.model,
            speed.search,
            speed.batch,
            median_and_range(speed.tokens_per_second),
            median_and_range(speed.sentences_per_second),
            *([f"{latency:.1f}" for latency in speed.latency_ms] if speed.latency_ms else ["", "", ""]),
        )
        for speed in result.speeds
    ]
    write_table(["model", "search", "batch", "tokens/s", "sentences/s", "p50 ms", "p95 ms", "p99 ms"], rows)
    for ratio in result.ratios:
        write(str(ratio))
    write()
    memory = "" if result.peak_bytes is None else f", {result.peak_bytes / 2**20:,.0f} MiB at the peak"
    of = " of float32" if result.precision == "int8" else ""
    write(
        f"{result.where}; {result.device}, {result.precision}; {result.gemm_gflops:,.0f} GFLOP/s in matrix "
        f"products{of}; {result.texts:,} texts, medians and ranges of {result.rounds} rounds{memory}"
    )


def median_and_range(figure: "MedianRange") -> str:
    return f"{figure.median:,.0f} ({figure.low:,.0f}-{figure.high:,.0f})"
