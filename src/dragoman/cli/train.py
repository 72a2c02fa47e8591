"""Commands that train: `train`, `fine-tune` and `demo`, and before them `prepare-data` and `train-tokenizer`."""

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import dragoman
from dragoman import system
from dragoman.cli.console import note, open_screen, write, write_result, write_table
from dragoman.cli.evaluate import show_meaning, show_scores
from dragoman.cli.options import (
    Anyway,
    Data,
    Device,
    Folder,
    Format,
    Fresh,
    Model,
    Quiet,
    Ray,
    Runs,
    Set,
    Setting,
    Threads,
    Verbose,
    keywords,
    one_or_more,
    one_or_two,
    typed,
)
from dragoman.cli.streams import standard_input
from dragoman.cli.translations import compare, converse
from dragoman.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from dragoman.evaluating.evaluation import Evaluation
    from dragoman.evaluating.scores import StoredEvaluation
    from dragoman.runs.forecast import Forecast
    from dragoman.runs.train import RunResult

USES = {
    "translation": (
        'translate with it: dragoman translate {run}{direction} "..."',
        "score it on other text: dragoman evaluate {run}{direction} SOURCE REFERENCE",
    ),
    "language_model": ('continue a text with it: dragoman generate {run} "..."',),
    "classify": (
        'label texts with it: dragoman predict {run} "..."',
        "score it, with its confusions: dragoman evaluate {run}",
    ),
    "tag": (
        'label words with it: dragoman predict {run} "..."',
        "score it, with its confusions: dragoman evaluate {run}",
    ),
    "fill": (
        'fill in words with it: dragoman predict {run} "... [MASK] ..."',
        "start a classifier or tagger from it: dragoman train LABELLED_TEXT --set start.model={run}",
    ),
}
"""Advice after a finished run, by its task."""

DATA, START = "dragoman.text.settings:DataSettings", "dragoman.runs.recipe:StartSettings"
Directions = Annotated[Any, Setting(DATA, "directions", "all that the text names")]
BothDirections = Annotated[Any, Setting(DATA, "both_directions")]
Synthetic = Annotated[Any, Setting("dragoman.text.settings:SyntheticSettings", "path", "none")]
TOKENIZER, TRAINING = "dragoman.tokenizing.settings:TokenizerSettings", "dragoman.training.settings:TrainSettings"
"""Schemas of options."""
ONLY_ADAPTERS = "Trains only adapters, into an adapter folder."
TEST_SETS = {"test": "known patterns", "new_patterns": "new patterns"}
"""Content of the phrasebook's test sets."""
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only prepare the text, and estimate steps, memory and time.")]
SAMPLES = 6
FINISHED = Path(dragoman.__file__).parent / "inference" / "phrasebook"
"""The model that ships, made by ``tools/make_model.py``."""
DEMO_TEXTS = (
    "Where is the station? I would like two coffees.",
    "Could you speak more slowly, please?",
    "I have lost my passport. Can you help me?",
)
"""Texts that both models of the demo translate."""
NEXT = (
    "Next, with your own text: a FILE that has a sentence and its translation on each line (.tsv, .csv, .jsonl)",
    "  dragoman train FILE --minutes 30      trains a translator on it and scores it",
    '  dragoman translate runs/NAME "..."    translates with it; dragoman runs lists the names',
)

log = logging.getLogger(__name__)


def prepare_data(
    data: Data,
    folder: Folder,
    source_language: Annotated[Any, Setting(DATA, "source_language", "from the names")] = None,
    target_language: Annotated[Any, Setting(DATA, "target_language", "from the names")] = None,
    directions: Directions = None,
    both_directions: BothDirections = None,
    encoding_errors: Annotated[Any, Setting(DATA, "encoding_errors")] = None,
    overrides: Set = None,
    ray: Ray = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Check parallel text, split it without leaks, and report what was dropped and why."""
    from dragoman.config import choose
    from dragoman.text.report import DataReport, direction_rows, report_rows
    from dragoman.text.settings import DataSettings

    progress = open_screen(quiet)
    settings = choose(
        DataSettings,
        "data",
        overrides or (),
        path=one_or_more(data),
        directions=directions,
        both_directions=both_directions,
        source_language=source_language,
        target_language=target_language,
        encoding_errors=encoding_errors,
    )
    if ray is None:
        report = dragoman.prepare_data(settings, folder, progress)
    else:
        report = dragoman.prepare_shards(settings, typed(folder), ray, progress)
    head, rows = ["", "", "why or where"], list(report_rows(report)) if isinstance(report, DataReport) else []
    if not rows:
        head, rows = ["direction", "train", "dev", "test", "dropped", "warnings"], list(direction_rows(folder))
    write_result(output_format, report.model_dump(mode="json"), lambda: write_table(head, rows))
    note(f"the data is in {typed(folder)}; train on it with: dragoman train {typed(folder)}")


def train_tokenizer(
    data: Data,
    folder: Folder,
    kind: Annotated[Any, Setting(TOKENIZER, "kind")] = None,
    vocabulary_size: Annotated[Any, Setting(TOKENIZER, "vocabulary_size", "8,000; words: all")] = None,
    overrides: Set = None,
    quiet: Quiet = False,
) -> None:
    """Learn a vocabulary from parallel text, or from the training side of prepared data, and save it."""
    from dragoman.config import choose
    from dragoman.text.settings import ReadingSettings, reading_overrides
    from dragoman.tokenizing.settings import TokenizerSettings

    progress = open_screen(quiet)
    reading_settings, tokenizer_settings = reading_overrides(overrides or ())
    settings = choose(TokenizerSettings, "tokenizer", tokenizer_settings, kind=kind, vocabulary_size=vocabulary_size)
    reading = choose(ReadingSettings, "data", reading_settings)
    result = dragoman.train_tokenizer(one_or_two(data), folder, settings, reading, progress)
    sides = ["both"] if result.tokenizers.joint else ["source", "target"]
    rows = [
        (side, f"{tokenizer.size:,}", " ".join(tokenizer.tokens(tokenizer.encode(example))))
        for side, tokenizer, example in zip(sides, result.tokenizers, result.example, strict=False)
    ]
    write_table(["side", "tokens", "the first sentence in tokens"], rows)
    note(f"the tokenizer is in {folder}")


def train(
    overrides: Set = None,
    name: Annotated[str | None, typer.Option(help="Name of the run.", show_default="from the recipe or data")] = None,
    runs: Runs = Path("runs"),
    fresh: Fresh = False,
    anyway: Anyway = False,
    device: Device = "auto",
    threads: Threads = None,
    minutes: Annotated[Any, Setting(TRAINING, "minutes", "30; of labelled text 20 epochs")] = None,
    directions: Directions = None,
    both_directions: BothDirections = None,
    synthetic: Synthetic = None,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="A recipe (a .toml file or a built-in one's name), text (a file, two aligned files, a folder, "
            "hub:NAME:CONFIG, or several of these), or a run to resume.",
            show_default="phrasebook",
        ),
    ] = None,
    task: Annotated[
        Literal["translate", "language_model", "classify", "tag", "fill"] | None,
        typer.Option(help="Task that is learned from the text.", show_default="by the form of the text"),
    ] = None,
    dry_run: DryRun = False,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Train this many runs, each from its own seed, and show how much they differ."),
    ] = None,
    more: Annotated[
        bool,
        typer.Option(
            "--more",
            help="Train a finished run further, from its last state. The limit (--minutes, or --set "
            "train.steps=N or train.epochs=N) counts from there.",
        ),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a model, or resume a run, and score it on its test sets."""
    options = keywords(locals(), "dry_run", "seeds")
    if dry_run and seeds is not None:
        raise ConfigError("--dry-run estimates one run, whatever its seed; leave --seeds out")
    if dry_run:
        show_forecast(dragoman.forecast(**options))
    elif seeds is not None:
        show_seeds(dragoman.train_seeds(seeds=seeds, **options))
    else:
        show_run(dragoman.train(**options))


def show_run(result: "RunResult") -> None:
    """Show the curves and scores of a run, and advice."""
    show_curves(result.folder)
    if result.evaluations:
        show_scores(result.evaluations)
        show_meaning(result.evaluations)
    else:
        show_stored_scores(result.folder)
    for use in USES[result.task]:
        note(use.format(run=result.folder, direction=options_of_direction(result.folder)))
    note(f"train it further: dragoman train {result.folder} --more --minutes 30")


def options_of_direction(run: Path) -> str:
    """Return the options that choose the first direction of a run's model; empty if it has no others."""
    from dragoman.run_folder import RunFolder
    from dragoman.store.description import read_config

    directions = read_config(RunFolder(run).best).directions
    first = None if directions is None else next(directions.pairs())
    return "" if first is None else " --source-language {} --target-language {}".format(*first)


def show_curves(run: Path) -> None:
    from dragoman.runs.metrics_log import curve_lines

    for line in curve_lines(run):
        note(line)


def show_stored_scores(run: Path) -> None:
    """Show the stored scores of a run that was finished before."""
    if system.rank() == 0 and (evaluations := read_stored_scores(run)):
        show_scores(evaluations)
        show_meaning([evaluation for evaluation in evaluations if not evaluation.system.startswith("before")])


def read_stored_scores(run: Path) -> "tuple[StoredEvaluation, ...]":
    """Read a run's `scores.json`, if any. A damaged file is only a warning, because the run itself is complete."""
    from dragoman.evaluating.scores import read_baselines, read_evaluations
    from dragoman.run_folder import RunFolder

    try:
        scores = RunFolder(run).scores
        return (*read_baselines(scores), *read_evaluations(scores)) if scores.exists() else ()
    except CheckpointError as error:
        log.warning("%s; score the run again with: dragoman evaluate %s SOURCE REFERENCE", error, run)
        return ()


def show_seeds(results: "Sequence[RunResult]") -> None:
    from dragoman.runs.train import spreads

    for spread in spreads([result.folder for result in results]):
        write(f"{spread.test}: {spread}")
    group = str(results[0].folder).removesuffix("-seed1")
    if results[0].task not in ("language_model", "fill"):
        note(f"compare it with another: dragoman evaluate {group} --against OTHER")


def show_forecast(forecast: "Forecast") -> None:
    from dragoman.cli.bars import duration

    recipe, train = forecast.recipe, forecast.recipe.train
    tuned = [] if recipe.tuning is None else [("tuning", "", forecast.trained)]
    sides, on_each = ("source and target", ", on each side") if recipe.task == "translation" else ("", "")
    batch = f"at most{on_each}; {train.accumulate} batches a step"
    memory = "unknown" if forecast.peak_bytes is None else f"{forecast.peak_bytes / 2**20:,.0f} MiB"
    rows = [
        ("parameters", f"{forecast.parameters:,}", f"{recipe.model.preset}, {recipe.model.size}"),
        *tuned,
        ("tokens an epoch", f"{forecast.tokens:,}", sides),
        ("steps", f"{train.steps:,}", f"{forecast.epochs:,.1f} epochs"),
        ("tokens of a batch", f"{recipe.batches.batch_tokens:,}", batch),
        ("time", duration(forecast.seconds), "for training and validation; scoring the test sets comes on top"),
        ("memory", memory, "at the peak"),
    ]
    write_table(["", "expected", ""], rows)
    write(f"measured on {forecast.where}")
    if forecast.prepared is not None:
        note(f"the text is prepared in {forecast.prepared}; the same command without --dry-run trains on it")


def fine_tune(
    model: Model,
    data: Data,
    overrides: Set = None,
    name: Annotated[str | None, typer.Option(help="Name of the run.", show_default="from the model and data")] = None,
    runs: Runs = Path("runs"),
    fresh: Fresh = False,
    anyway: Anyway = False,
    device: Device = "auto",
    threads: Threads = None,
    minutes: Annotated[Any, Setting(TRAINING, "minutes", "6 epochs; more of little text")] = None,
    freeze: Annotated[Any, Setting("dragoman.training.settings:TuningSettings", "freeze")] = None,
    lora: Annotated[Any, Setting("dragoman.model.config:LoraSettings", "rank", "no adapters", ONLY_ADAPTERS)] = None,
    mix_rate: Annotated[Any, Setting(START, "mix_rate", "0.5, if that data is there")] = None,
    mix_data: Annotated[Any, Setting(START, "mix_data", "that of the model's run")] = None,
    synthetic: Synthetic = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a finished model on new text; score it on the old and the new test set, before and after."""
    options, text = keywords(locals(), "data", "dry_run"), one_or_two(data)
    if dry_run:
        show_forecast(dragoman.forecast_fine_tune(data=text, **options))
        return
    result = dragoman.fine_tune(data=text, **options)
    if result.before or result.after:
        show_scores([*result.before, *result.after])
        show_meaning(result.after)
        write(f"BLEU before and after: {', '.join(map(gain, result.before, result.after))}")
    else:
        show_stored_scores(result.folder)
    note(f'translate with it: dragoman translate {result.folder}{options_of_direction(result.folder)} "..."')
    if any("old test" in evaluation.system for evaluation in result.after):
        note(f"forget less of the old text: dragoman average {model} {result.folder} --to FOLDER")
    if lora is not None:
        note(f"merge both into one model: dragoman merge {result.folder} --to FOLDER")


def gain(before: "Evaluation", after: "Evaluation") -> str:
    """Return the BLEU scores before and after fine-tuning on one test set."""
    from dragoman.evaluating.metrics import not_comparable

    scores = before.scores["bleu"], after.scores["bleu"]
    reasons = not_comparable(scores)
    doubt = f" (not comparable: {reasons})" if reasons else ""
    return f"{after.system.split()[1]} {scores[0].printed} -> {scores[1].printed}{doubt}"


def demo(
    steps: Annotated[Any, Setting(TRAINING, "steps", "2,000")] = None,
    runs: Runs = Path("runs"),
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Translate with a finished English-Italian model, train a second one, then translate what you type."""
    from dragoman.evaluating.references import own_test_pairs
    from dragoman.text.phrasebook import words
    from dragoman.text.prepared import read_split

    progress = open_screen(quiet)
    finished = dragoman.Translator.load(FINISHED, precision="float32", progress=progress, threads=threads)
    answers = [translation.text for translation in finished.translate(DEMO_TEXTS)]
    write_table(["English", "the finished model"], list(zip(DEMO_TEXTS, answers, strict=True)))
    note("now a model like it is trained here")
    overrides = [f"train.steps={steps}"] if steps else []
    run = dragoman.train("phrasebook", overrides=overrides, runs=runs, threads=threads, progress=progress).folder
    show_curves(run)
    show_demo_scores(run)
    translator = dragoman.Translator.load(run, progress=progress, threads=threads)
    known = frozenset(word for source, _ in read_split(run / "data", "train") for word in words(source))
    pairs = own_test_pairs(run)
    for source, target in pairs[:: max(1, len(pairs) // SAMPLES)][:SAMPLES]:
        write()
        compare(translator, source, target, translator.options)
    write()
    trained = [translation.text for translation in translator.translate(DEMO_TEXTS)]
    write_table(["English", "finished model", "your model"], list(zip(DEMO_TEXTS, answers, trained, strict=True)))
    if sys.stdin.isatty():
        write()
        with suppress(KeyboardInterrupt):  # another way to end the conversation
            converse(translator, standard_input(), translator.options, known_words=known)
    for line in NEXT:
        note(line)


def show_demo_scores(run: Path) -> None:
    """Show the scores of a run on the phrasebook, named by the content of the test sets."""
    from dragoman.evaluating.scores import StoredTestSet

    stored = {evaluation.test.stem: evaluation for evaluation in read_stored_scores(run)}
    evaluations = [
        stored[stem].model_copy(update={"system": name, "test": StoredTestSet(name=name)})
        for stem, name in TEST_SETS.items()
        if stem in stored
    ]
    show_scores(evaluations)
    show_meaning(evaluations)
