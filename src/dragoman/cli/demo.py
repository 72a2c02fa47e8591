"""`dragoman demo`: trains on the built-in phrasebook, then translates what you type."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Place, Quiet, Runs, Threads, with_minutes
from dragoman.cli.terminal.screen import open_screen
from dragoman.cli.train import kept_scores, show_curves
from dragoman.cli.translate import Work

TEST_SETS = {"test": "known patterns", "new_patterns": "new patterns"}
"""What the test sets of the phrasebook try."""
SAMPLES = 6
NEXT = (
    "Next, with your own text: a FILE that has a sentence and its translation on each line (.tsv, .csv, .jsonl)",
    "  dragoman train FILE --minutes 30      trains a translator on it and scores it",
    '  dragoman translate runs/NAME "..."    translates with it; dragoman runs lists the names',
)

Minutes = Annotated[float | None, typer.Option(help="Minutes of training.", show_default="4.5")]


def demo(minutes: Minutes = None, runs: Runs = Path("runs"), threads: Threads = None, quiet: Quiet = False) -> None:
    """Train a small English-Italian translator in minutes, then translate what you type."""
    from dragoman.evaluating.references import own_test_pairs

    screen = open_screen(quiet)
    dragoman.keep_freed_memory()
    result = dragoman.train(
        "phrasebook",
        overrides=with_minutes(None, minutes),
        runs=runs,
        threads=threads,
        progress=screen.progress,
    )
    show_curves(screen, result.folder)
    show_scores(result.folder)
    translator = Place(threads=threads).load(result.folder, screen.progress)
    work = Work(screen, translator, translator.options, known_words=known_words(result.folder))
    pairs = own_test_pairs(result.folder)
    for source, target in pairs[:: max(1, len(pairs) // SAMPLES)][:SAMPLES]:
        console.write()
        work.compare(source, target)
    if sys.stdin.isatty():
        console.write()
        with suppress(KeyboardInterrupt):  # another way to end the conversation
            work.converse()
    for line in NEXT:
        screen.note(line)


def show_scores(run: Path) -> None:
    """The scores of a run by what each test set tries."""
    from dragoman.evaluating.scores import HEADINGS, score_rows

    kept = {found.test.stem: found for found in kept_scores(run)}
    named = {name: kept[stem] for stem, name in TEST_SETS.items() if stem in kept}
    rows = [(name, *row) for name, found in named.items() for row in score_rows(found.scores.values())]
    if rows:
        console.write_table(["test set", *HEADINGS], rows)
    for name, found in named.items():
        console.write(f"{name}: {found.counts['lines']:,} sentences, {found.search}")


def known_words(run: Path) -> frozenset[str]:
    """The source words that a run was trained on, in lower case."""
    from dragoman.text.phrasebook import words
    from dragoman.text.prepared import read_split

    return frozenset(word for source, _ in read_split(run / "data", "train") for word in words(source))
