"""`dragoman generate`: a language model goes on with a text."""

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Format, Model, Place, Quiet, grouped
from dragoman.cli.terminal.screen import Screen, open_screen
from dragoman.errors import DataError

if TYPE_CHECKING:
    from dragoman.inference.generator import Generation, Generator
    from dragoman.inference.options import GenerateOptions

CONTINUED = 100_000
"""Bytes of standard input that are read at most; a model sees far fewer."""


@grouped
def generate(
    model: Model,
    place: Place,
    prompt: Annotated[
        str | None,
        typer.Argument(
            help="The beginning of the text, in quotes; '' begins as after a line break.",
            show_default="standard input",
        ),
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="Most tokens that are written.", show_default="200")] = None,
    temperature: Annotated[
        float | None,
        typer.Option(help="Less than 1 favours likely tokens; 0 takes the likeliest.", show_default="0.8"),
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw only from so many of the likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw only from the likeliest tokens that together have this probability.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed, another text.", show_default="1")] = None,
    samples: Annotated[int | None, typer.Option(help="Texts to write.", show_default="1")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="A text at which writing ends; may be repeated.")] = None,
    context: Annotated[
        int | None,
        typer.Option(help="Most tokens of the text so far that the model sees.", show_default="as it was trained on"),
    ] = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Go on with a text, by a language model."""
    from dragoman.config import choose

    screen = open_screen(quiet)
    prompt = read_standard_input() if prompt is None else prompt
    generator = place.load_generator(model, screen.progress)
    given = {"tokens": tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given |= {"samples": samples, "stop": stop, "context": context}
    options = choose(dragoman.GenerateOptions, "generate", (), generator.options, **given)
    screen.note(f"{generator.device}, {generator.precision}")
    if options.samples == 1 and output_format == "text":
        found = [stream(generator, prompt, options)]
    else:
        found = generator.generate([prompt], options, screen.progress)
        show(found, output_format == "json")
    tell_forgotten(screen, found[0], generator.context(options))


def read_standard_input() -> str:
    """All of standard input but the end of its last line."""
    if sys.stdin.isatty():
        return ""
    text = sys.stdin.buffer.read(CONTINUED + 1)
    if len(text) > CONTINUED:
        raise DataError(f"standard input holds more than {CONTINUED:,} bytes; give the end of the text")
    try:
        return text.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"standard input is not valid UTF-8 at byte {error.start:,}") from None


def stream(generator: "Generator", prompt: str, options: "GenerateOptions") -> "Generation":
    """Writes the prompt, and what follows as it is drawn."""
    console.write(prompt, end="")
    pieces = generator.stream(prompt, options)
    while True:
        try:
            console.write(next(pieces), end="")
            console.flush()
        except StopIteration as end:
            console.write()
            return end.value


def show(found: "list[Generation]", as_json: bool) -> None:
    """Writes finished samples: each on a line as JSON, or as text below its number."""
    for each in found:
        if as_json:
            console.write(json.dumps(dataclasses.asdict(each), ensure_ascii=False))
        else:
            console.write(f"--- sample {each.sample} of {len(found)} ---\n{each.prompt}{each.text}")


def tell_forgotten(screen: Screen, found: "Generation", context: int | None) -> None:
    """Says if the model did not see all of the prompt."""
    if found.forgotten:
        screen.note(
            f"the model sees at most {context:,} tokens, so the first {found.forgotten:,} of the prompt were not read"
        )
