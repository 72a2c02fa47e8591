"""Commands that list runs, settings (both without torch) and facts of this machine, and open the guide: `runs`,
`settings`, `doctor`, `guide`.
"""

import sys
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dragoman
from dragoman.cli.console import note, open_screen, write, write_result, write_table
from dragoman.cli.options import Format, Quiet

if TYPE_CHECKING:
    from dragoman.runs.status import RunFacts

UNITS = {"day": 86_400, "h": 3_600, "min": 60, "s": 1}


def runs(
    folder: Annotated[Path, typer.Argument(help="The folder that holds the runs, or one run.")] = Path("runs"),
    output_format: Format = "text",
) -> None:
    """List runs: state, score, steps, age and size."""
    open_screen()
    listed = dragoman.list_runs(folder) if folder.is_dir() or folder != Path("runs") else ()
    if listed or output_format == "json":
        facts = [{**run._asdict(), "score": run.score and run.score._asdict()} for run in listed]
        headings = ["run", "state", "score", "steps", "last change", "size"]
        write_result(output_format, facts, lambda: write_table(headings, map(_row, listed)))
    else:
        note(f"no runs in {folder}; begin with: dragoman train FILE (or, without text of your own, dragoman demo)")


def _row(run: "RunFacts") -> tuple[str, ...]:
    from rich.filesize import decimal

    from dragoman.evaluating.metrics import printed

    score = run.score
    return (
        run.folder,
        run.state,
        f"{score.metric} {printed(score.metric, score.value)} on {score.test}" if score else "",
        f"{run.steps:,}" + (f" of {run.steps_wanted:,}" if run.steps_wanted else ""),
        f"{age(time.time() - run.changed)} ago",
        decimal(run.bytes),
    )


def age(seconds: float) -> str:
    """Return a time in its largest unit.

    >>> age(59), age(7_300), age(86_400), age(200_000)
    ('59 s', '2 h', '1 day', '2 days')
    """
    unit, length = next(((unit, length) for unit, length in UNITS.items() if seconds >= length), ("s", 1))
    count = max(0, int(seconds / length))
    return f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''}"


def settings(
    key: Annotated[
        str | None,
        typer.Argument(help="A setting, a group of them, or a part of their names.", show_default="all settings"),
    ] = None,
    output_format: Format = "text",
) -> None:
    """List settings: what each takes, its default and its meaning."""
    listed = dragoman.list_settings(key)
    open_screen(quiet=output_format == "json")
    rows = [(facts.key, _takes(facts.type, facts.allowed), facts.default, facts.meaning) for facts in listed]
    headings = ["setting", "takes", "default", "meaning"]
    write_result(output_format, [facts._asdict() for facts in listed], lambda: write_table(headings, rows))
    note(f"change one with --set KEY=VALUE, as in --set {listed[-1].key}=VALUE, or in a recipe under its group")


def _takes(kind: str, allowed: str) -> str:
    """Return a type and its range in a few words; a list of words needs no type before it."""
    return allowed if kind == "word" else ", ".join(filter(None, (kind, allowed)))


def doctor(output_format: Format = "text", quiet: Quiet = False) -> None:
    """Show versions, processor, memory, precision and why, compiler and extras."""
    open_screen(quiet)
    facts = dragoman.doctor()
    values = {fact.name: fact.value for fact in facts}
    write_result(output_format, values, lambda: write_table(["", "found", "what it means"], facts))


def guide() -> None:
    """Open the guide in a browser, and print the path of its first page."""
    page = dragoman.find_guide()
    write(str(page))
    if sys.stdout.isatty():
        webbrowser.open(page.as_uri())
