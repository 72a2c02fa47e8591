"""`dragoman doctor`: what this machine and installation offer."""

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Format, Quiet
from dragoman.cli.terminal.screen import open_screen


def doctor(output_format: Format = "text", quiet: Quiet = False) -> None:
    """Show versions, processor, memory, precision and why, compiler and extras."""
    open_screen(quiet)
    facts = dragoman.doctor()
    if output_format == "json":
        console.write_json({fact.name: fact.found for fact in facts})
    else:
        console.write_table(["", "found", "what it means"], facts)
