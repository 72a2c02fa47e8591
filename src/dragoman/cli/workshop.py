"""The command `workshop`: a folder in which a reader of the guide writes the Transformer, and its checks."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

import dragoman
from dragoman.cli.console import note, open_screen, write_result, write_table
from dragoman.cli.options import Format, Quiet
from dragoman.errors import ConfigError


def workshop(
    what: Annotated[
        str, typer.Argument(metavar="NAME|check", help="A new folder, or `check`.", show_default=False)
    ] = "check",
    folder: Annotated[Path, typer.Argument(help="The folder to check.", show_default="this folder")] = Path("."),
    solutions: Annotated[bool, typer.Option("--solutions", help="Fill in the solutions.")] = False,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Build along with the guide: make a folder of exercises, then check in it what you have written."""
    progress = open_screen(quiet)
    if what != "check":
        if folder != Path("."):
            raise ConfigError(f"{what} {folder}: give the name of a new folder alone, or check FOLDER")
        made = dragoman.make_workshop(what, solutions)
        note(f"write the parts in {made}/step_*.py, page by page; check them with: dragoman workshop check {made}")
        return
    if solutions:
        raise ConfigError("--solutions fills a new folder in; leave it out to check one")
    verdicts = dragoman.check_workshop(folder, progress)
    facts = [verdict._asdict() for verdict in verdicts]
    rows = [(str(verdict.page), verdict.part, verdict.result, verdict.says) for verdict in verdicts]
    write_result(output_format, facts, lambda: write_table(["page", "part", "result", "mistake and place"], rows))
    counts = Counter(verdict.result for verdict in verdicts)
    if counts["passes"] == len(verdicts):
        note(f"all parts pass; train your model, and translate with it: python {folder / 'my_transformer.py'}")
    else:
        rest = f"{counts['wrong']} are wrong, {counts['to write']} are to write"
        note(f"{counts['passes']} parts pass, {rest}; once all pass, they are checked together")
