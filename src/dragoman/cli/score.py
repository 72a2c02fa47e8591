"""`dragoman score`: how probable a model finds given translations; with `--at-least`, a filter of parallel text."""

import dataclasses
import json
import logging
import sys
from array import array
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Annotated

import typer

import dragoman
from dragoman.cli.terminal.lines import standard_input, writer
from dragoman.cli.terminal.options import Adapter, Format, LengthPenalty, Model, Place, Quiet, Set, grouped, one_or_two
from dragoman.cli.terminal.screen import Screen, open_screen
from dragoman.files import check_output

if TYPE_CHECKING:
    from dragoman.evaluating.pairs import ScoredPair
    from dragoman.inference.segments import Arriving
    from dragoman.text.readers import Pair, Reading

log = logging.getLogger(__name__)

NAMED = 5
"""Pairs without a score that are named; of the others the number is told."""


@grouped
def score(
    model: Model,
    place: Place,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Pairs: a file (.tsv .csv .jsonl .parquet, also .gz), two aligned files, the beginning of their "
            "names, or a pattern in quotes.",
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
    settings: Set = None,
    adapter: Adapter = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Score given translations, one a line: score, log_prob, tokens, source, target. Or keep the probable pairs."""
    screen = open_screen(quiet)
    reading = opened(model, one_or_two(data), settings or ()) if data else None
    if output is not None:
        check_output(output, *(reading.files if reading else ()))
    if not data and sys.stdin.isatty():
        screen.note("type pairs, each a source, a tab and a target; Ctrl-D ends")
    penalty = [] if length_penalty is None else [f"decode.length_penalty={length_penalty}"]
    found = dragoman.score(
        model,
        typed_pairs() if reading is None else reading,
        [*penalty, *(settings or ())],
        **place.options(),
        progress=screen.progress,
        adapter=adapter,
    )
    tally = Tally(screen)
    with writer(output) as write:
        for pair in found:
            kept = at_least is None or (pair.mean_log_prob is not None and pair.mean_log_prob >= at_least)
            tally.add(pair, kept)
            if kept:
                write(line_of(pair, output_format == "json", figures=at_least is None))
    tally.tell(at_least)


def opened(model: Path, data: str | tuple[str, str], settings: Sequence[str]) -> "Reading":
    """The pairs of files, which knows the files."""
    from dragoman.config import choose
    from dragoman.evaluating.pairs import open_scored
    from dragoman.text.settings import ReadingSettings, reading_overrides

    return open_scored(model, data, choose(ReadingSettings, "data", reading_overrides(settings)[0]))


def typed_pairs() -> "Arriving[Pair]":
    """The pairs of standard input: what stands before and behind the first tab of each line."""
    from dragoman.inference.segments import Arriving
    from dragoman.text.readers import Pair

    def pair(number: int, line: str) -> Pair:
        source, tab, rest = line.partition("\t")
        fault = "" if tab else "no tab between source and target"
        return Pair(source, rest.partition("\t")[0], f"standard input:{number}", fault)

    lines = standard_input()
    return Arriving(map(pair, count(1), lines), lines.has_come)


def line_of(pair: "ScoredPair", as_json: bool, figures: bool) -> str:
    """A pair as a line: as JSON with all that is known; else as cells between tabs, with or without its figures."""
    if as_json:
        facts = {**dataclasses.asdict(pair), "mean_log_prob": pair.mean_log_prob}
        return json.dumps(facts, ensure_ascii=False) + "\n"
    known = ["", "", ""]
    if pair.score is not None:
        known = [f"{pair.score:.4f}", f"{pair.log_prob:.4f}", str(len(pair.tokens))]
    return "\t".join([*(known if figures else ()), cell(pair.source), cell(pair.target)]) + "\n"


def cell(text: str) -> str:
    """A text as one cell of a line: tabs and line breaks in it become spaces."""
    from dragoman.inference.writing import one_line

    return one_line(text.replace("\t", " "))[0]


class Tally:
    """Counts scored pairs, and names the first ones that have no score."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._means = array("d")
        self._kept = self._problems = 0

    def add(self, pair: "ScoredPair", kept: bool) -> None:
        self._kept += kept
        if pair.mean_log_prob is not None:
            self._means.append(pair.mean_log_prob)
            return
        self._problems += 1
        if self._problems <= NAMED:
            log.warning("%s has no score: %s", pair.origin, pair.problem)

    def tell(self, at_least: float | None) -> None:
        """Says how many pairs were kept and had no score, and how the scores are spread."""
        pairs = len(self._means) + self._problems
        if self._problems:
            fate = "are dropped" if at_least is not None else "are written without figures"
            log.warning("%s of %s pairs have no score and %s", f"{self._problems:,}", f"{pairs:,}", fate)
        if at_least is not None:
            self._screen.note(f"{self._kept:,} of {pairs:,} pairs have a mean log-probability of at least {at_least:g}")
        if len(self._means) > 1:
            tenths = quantiles(self._means, n=10)
            self._screen.note(
                f"mean log-probability a token: median {tenths[4]:.2f}; a tenth of the pairs lies below {tenths[0]:.2f}"
            )
