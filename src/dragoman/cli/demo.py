"""`dragoman demo`: trains on the phrasebook that comes along, then translates what is typed."""

import sys
from pathlib import Path

import dragoman
from dragoman.cli import console
from dragoman.cli.evaluate import show
from dragoman.cli.options import Minutes, Quiet, Runs, Threads, test_pairs, with_minutes
from dragoman.cli.translate import Work

SAMPLES = 6


def demo(minutes: Minutes = None, runs: Runs = Path("runs"), threads: Threads = None, quiet: Quiet = False) -> None:
    """Train a small English-Italian translator in minutes, then translate what you type."""
    screen = console.Screen(quiet)
    result = dragoman.train(
        "phrasebook",
        overrides=with_minutes(None, minutes),
        runs=runs,
        threads=threads,
        progress=screen.progress,
    )
    if result.evaluations:
        show(screen, result.evaluations, [])
    translator = dragoman.Translator.load(result.folder, threads=threads)
    work = Work(screen, translator, translator.options)
    pairs = test_pairs(result.folder)
    for source, target in pairs[:: max(1, len(pairs) // SAMPLES)][:SAMPLES]:
        console.write()
        work.compare(source, target)
    if sys.stdin.isatty():
        console.write()
        work.converse()
