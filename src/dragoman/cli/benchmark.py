"""`dragoman benchmark`: how fast models translate on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Format, Place, Quiet, Set, grouped
from dragoman.cli.terminal.screen import open_screen

if TYPE_CHECKING:
    from dragoman.evaluating.speed import Benchmark, Spread


@grouped
def benchmark(
    models: Annotated[
        list[Path], typer.Argument(help="One model or run, or several side by side.", show_default=False)
    ],
    place: Place,
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
    measured = dragoman.benchmark(
        models,
        texts,
        sentences=sentences,
        rounds=rounds,
        overrides=overrides or (),
        output=output,
        progress=open_screen(quiet).progress,
        **place.options(),
    )
    if output_format == "json":
        console.write_json(measured.facts())
    else:
        show(measured)


def show(measured: "Benchmark") -> None:
    show_speeds(measured)
    for ratio in measured.ratios:
        console.write(str(ratio))
    console.write()
    memory = "" if measured.peak_bytes is None else f", {measured.peak_bytes / 2**20:,.0f} MiB at the peak"
    of = " of float32" if measured.precision == "int8" else ""
    console.write(
        f"{measured.where}; {measured.device}, {measured.precision}; {measured.gemm_gflops:,.0f} GFLOP/s in matrix "
        f"products{of}; {measured.texts:,} texts, medians and ranges of {measured.rounds} rounds{memory}"
    )


def show_speeds(measured: "Benchmark") -> None:
    columns = ["model", "search", "batch", "tokens/s", "sentences/s", "p50 ms", "p95 ms", "p99 ms"]
    rows = [
        (
            speed.model,
            speed.search,
            speed.batch,
            spread(speed.tokens_per_second),
            spread(speed.sentences_per_second),
            *(f"{each:.1f}" for each in speed.latency_ms or ()),
            *([""] * (0 if speed.latency_ms else 3)),
        )
        for speed in measured.speeds
    ]
    console.write_table(columns, rows)


def spread(figure: "Spread") -> str:
    return f"{figure.median:,.0f} ({figure.low:,.0f}-{figure.high:,.0f})"
