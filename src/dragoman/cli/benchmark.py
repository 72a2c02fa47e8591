"""`dragoman benchmark`: how fast models translate on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dragoman
from dragoman.cli import console
from dragoman.cli.options import Format, Place, Quiet, Set, chosen, grouped, test_pairs

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
    """Measure tokens a second, latency, memory and start-up: greedy and with a beam of 4, or as --set says."""
    from itertools import islice

    from dragoman.evaluating.speed import SEARCHES
    from dragoman.files import check_output, write_json
    from dragoman.machine import choose_device, choose_precision
    from dragoman.text.reading.lines import read_lines
    from dragoman.translating.options import SearchOptions

    screen = console.Screen(quiet)
    if output is not None:
        check_output(output)
    device, _ = choose_device(place.device)
    measured = dragoman.benchmark(
        models,
        list(islice(read_lines(texts) if texts else (source for source, _ in test_pairs(models[0])), sentences)),
        searches=list(dict.fromkeys(chosen(SearchOptions, "decode", overrides, each) for each in SEARCHES)),
        rounds=rounds,
        device=device,
        precision=choose_precision(place.precision, device)[0],
        threads=place.threads,
        progress=screen.progress,
    )
    if output is not None:
        write_json(output, measured.facts())
    if output_format == "json":
        console.write_json(measured.facts())
    else:
        show(screen, measured)


def show(screen: console.Screen, measured: "Benchmark") -> None:
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
    screen.show(console.table(columns, rows))
    for ratio in measured.ratios:
        console.write(str(ratio))
    starts = [
        (
            name,
            f"{start.total_seconds:.2f}",
            f"{start.import_seconds:.2f}",
            f"{start.load_seconds:.2f}",
            f"{start.first_seconds:.2f}",
            mebibytes(start.first_peak_bytes),
            mebibytes(start.peak_bytes),
        )
        for name, start in measured.starts.items()
    ]
    columns = ["model", "start-up s", "import s", "load s", "first text s", "MiB then", "MiB after all"]
    console.write()
    screen.show(console.table(columns, starts))
    console.write(
        f"{measured.where}; {measured.device}, {measured.precision}; {measured.gemm_gflops:,.0f} GFLOP/s in matrix "
        f"products; {measured.texts:,} texts, medians and ranges of {measured.rounds} rounds"
    )


def spread(figure: "Spread") -> str:
    return f"{figure.median:,.0f} ({figure.low:,.0f}-{figure.high:,.0f})"


def mebibytes(count: int | None) -> str:
    return "" if count is None else f"{count / 2**20:,.0f}"
