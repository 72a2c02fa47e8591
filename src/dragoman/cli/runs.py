"""`dragoman runs`: lists the runs, how far each is and how good."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Format
from dragoman.cli.terminal.screen import open_screen

if TYPE_CHECKING:
    from dragoman.runs.folder import RunFacts, RunScore

UNITS = {"day": 86_400, "h": 3_600, "min": 60, "s": 1}


def runs(
    folder: Annotated[Path, typer.Argument(help="The folder that runs lie in, or one run.")] = Path("runs"),
    output_format: Format = "text",
) -> None:
    """List runs: state, score, steps, age and size."""
    screen = open_screen()
    found = dragoman.list_runs(folder) if folder.is_dir() or folder != Path("runs") else ()
    if output_format == "json":
        console.write_json([_plain(run) for run in found])
    elif found:
        columns = ["run", "state", "score", "steps", "last change", "size"]
        console.write_table(columns, map(_row, found))
    else:
        screen.note(
            f"no runs in {folder}; begin with: dragoman train FILE (or, without text of your own, dragoman demo)"
        )


def _plain(run: "RunFacts") -> dict[str, object]:
    return {**run._asdict(), "score": run.score and run.score._asdict()}


def _score(score: "RunScore") -> str:
    from dragoman.evaluating.metrics import printed

    return f"{score.metric} {printed(score.metric, score.value)} on {score.test}"


def _row(run: "RunFacts") -> tuple[str, ...]:
    from rich.filesize import decimal

    return (
        run.folder,
        run.state,
        _score(run.score) if run.score else "",
        f"{run.steps:,}" + (f" of {run.steps_wanted:,}" if run.steps_wanted else ""),
        f"{age(time.time() - run.changed)} ago",
        decimal(run.bytes),
    )


def age(seconds: float) -> str:
    """A time in its largest unit.

    >>> age(59), age(7_300), age(86_400), age(200_000)
    ('59 s', '2 h', '1 day', '2 days')
    """
    unit, length = next(((unit, length) for unit, length in UNITS.items() if seconds >= length), ("s", 1))
    count = max(0, int(seconds / length))
    return f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''}"
