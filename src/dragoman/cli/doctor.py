"""`dragoman doctor`: what this machine and installation offer."""

import dragoman
from dragoman.cli import console
from dragoman.cli.options import Format, Quiet


def doctor(output_format: Format = "text", quiet: Quiet = False) -> None:
    """Show versions, processor, memory, precision and why, compiler and extras."""
    facts = dragoman.doctor()
    if output_format == "json":
        console.write_json({fact.name: fact.found for fact in facts})
    else:
        console.Screen(quiet).show(console.table(["", "found", "what it means"], facts))
