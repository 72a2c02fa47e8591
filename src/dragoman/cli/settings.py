"""`dragoman settings`: every setting that `--set` and recipes take."""

from typing import Annotated

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Format
from dragoman.cli.terminal.screen import open_screen


def settings(
    key: Annotated[
        str | None,
        typer.Argument(help="A setting, a group of them, or a part of their names.", show_default="all settings"),
    ] = None,
    output_format: Format = "text",
) -> None:
    """List settings: what each takes, its default and its meaning."""
    found = dragoman.list_settings(key)
    if output_format == "json":
        console.write_json([facts._asdict() for facts in found])
        return
    rows = [(facts.key, _takes(facts.type, facts.allowed), facts.default, facts.meaning) for facts in found]
    screen = open_screen()
    console.write_table(["setting", "takes", "default", "meaning"], rows)
    screen.note(f"change one with --set KEY=VALUE, as in --set {found[-1].key}=VALUE, or in a recipe under its group")


def _takes(kind: str, allowed: str) -> str:
    """A type and its range in a few words; a list of words needs no type before it."""
    return allowed if kind == "word" else ", ".join(filter(None, (kind, allowed)))
