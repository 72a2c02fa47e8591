"""Options that are settings, whose type, range, default and help are those of their field, and shared options.

A command is built only when it is called, because schemas load pydantic, and `dragoman --help` does not.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand

from dragoman.cli.console import open_screen
from dragoman.errors import ConfigError
from dragoman.formats.registry import DATA_SUFFIXES
from dragoman.system import MOST_THREADS


class Setting(NamedTuple):
    """A mark on a parameter that is a setting, as in `Annotated[Any, Setting("dragoman.x:Schema", "field")]`."""

    schema: str
    """Module and class of the settings, with a colon between them."""
    field: str
    default: str = "{}"
    """The default in words; `{}` becomes that of the field."""
    note: str = ""
    """Help in addition to the first sentence of the field's description."""

    def annotation(self) -> Any:
        """Return the annotation that Typer reads. Without the option, the value is None."""
        module, _, schema = self.schema.partition(":")
        settings = getattr(import_module(module), schema)
        field = settings.model_fields[self.field]
        kind = command_line_type(field.annotation)
        has_default = self.default != "{}" or (kind is not bool and field.default not in (None, ()))
        sentence = " ".join(settings.meanings()[self.field].split()).partition(". ")[0].removesuffix(".") + "."
        repeated = "May be repeated." if get_origin(kind) is list else ""
        option = typer.Option(
            *([f"--{self.field.replace('_', '-')}"] if kind is bool else []),  # without --no-…
            help=" ".join(filter(None, (sentence, self.note, repeated))),
            min=next((bound.ge for bound in field.metadata if hasattr(bound, "ge")), None),
            max=next((bound.le for bound in field.metadata if hasattr(bound, "le")), None),
            show_default=has_default and self.default.format(field.default),
        )
        return Annotated[kind | None, option]


def command_line_type(annotation: Any) -> Any:
    """Return a field's type without None and constraints. Several texts are a list.

    >>> command_line_type(tuple[str, ...] | None), command_line_type(Literal["a", "b"])
    (list[str], typing.Literal['a', 'b'])
    """
    origin = get_origin(annotation)
    if origin in (None, Literal):
        return annotation
    kind = command_line_type(get_args(annotation)[0])
    return list[kind] if origin is tuple else kind


def build(function: Callable[..., object]) -> TyperCommand:
    """Return the command of a function."""
    for name, annotation in function.__annotations__.items():
        for mark in getattr(annotation, "__metadata__", ()):
            if isinstance(mark, Setting):
                function.__annotations__[name] = mark.annotation()
    app = typer.Typer(add_completion=False)
    app.command()(function)
    return typer.main.get_command(app)  # pyright: ignore[reportReturnType]


Model = Annotated[
    Path,
    typer.Argument(
        help="A model folder, a run folder (its best/, else its final/), or a Marian model of the hub, hub:OWNER/NAME.",
        show_default=False,
    ),
]
To = Annotated[Path, typer.Option("--to", help="The new model folder.", show_default=False)]
Folder = Annotated[Path, typer.Option(help="The new folder.", show_default=False)]
Adapter = Annotated[
    Path | None,
    typer.Option("--adapter", help="An adapter of MODEL: its folder, or the run that trained it.", show_default=False),
]
Data = Annotated[
    list[str],
    typer.Argument(
        help=f"Parallel text: a file ({DATA_SUFFIXES}, also .gz), two aligned "
        "files, the beginning of their names, a pattern in quotes ('parts/*.tsv'), a folder with train.*, "
        "hub:NAME:CONFIG, or phrasebook.",
        show_default=False,
    ),
]
Texts = Annotated[
    list[str] | None,
    typer.Argument(help="One text or several, each in quotes.", show_default="standard input, a text a line"),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change one setting; may be repeated. `dragoman settings` lists them."
    ),
]
Runs = Annotated[Path, typer.Option(help="The folder that holds the runs.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Begin a new run under a new name. Nothing is deleted.")]
Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway",
        help="Resume even if the machine has changed (the weights will differ) or the data (the run keeps its own).",
    ),
]
SEARCH, GENERATION = "dragoman.inference.options:SearchOptions", "dragoman.inference.options:GenerateOptions"
OWN_DEFAULT = "the model's own, usually {}"
BeamSize = Annotated[Any, Setting(SEARCH, "beam_size", OWN_DEFAULT)]
LengthPenalty = Annotated[Any, Setting(SEARCH, "length_penalty", OWN_DEFAULT)]
SourceLanguage = Annotated[Any, Setting(SEARCH, "source_language", "the only one")]
TargetLanguage = Annotated[Any, Setting(SEARCH, "target_language", "as each text's tag says")]
Pivot = Annotated[Any, Setting(SEARCH, "pivot", "none")]
Raw = Annotated[Any, Setting(SEARCH, "raw", note="Markup is translated too.")]
Protect = Annotated[Any, Setting(SEARCH, "protect", note="A translation keeps what they match.")]
NBest = Annotated[Any, Setting(SEARCH, "n_best", OWN_DEFAULT, "With text output: line, rank, score, text.")]
Align = Annotated[Any, Setting(SEARCH, "align", note="With text output: text, tab, 0-0 1-2 ….")]
Device = Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the model runs.")]
Precision = Annotated[
    Literal["auto", "float32", "bf16", "int8"],
    typer.Option(help="Number format of the computation; int8 is for translation and language models."),
]
Threads = Annotated[
    int | None, typer.Option(min=1, max=MOST_THREADS, help="Processor threads.", show_default="all cores")
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Work on the Ray cluster at this address, shard by shard; local starts one here (docs/many-machines.md).",
        show_default=False,
    ),
]
Format = Annotated[Literal["text", "json"], typer.Option("--format", help="How results are printed.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show only results, warnings and errors.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Show also signatures of scores, and in training each choice and sample."),
]


def refuse_beam_of_samples(beam_size: int | None, overrides: Sequence[str]) -> None:
    """Refuse a beam together with settings that draw samples."""
    from dragoman.inference.options import DRAWS

    samples = [text for text in overrides if text.partition("=")[0].split(".")[-1].strip() in DRAWS]
    if samples and (beam_size or 1) > 1:
        raise ConfigError(f"{samples[0]} draws samples and --beam-size {beam_size} searches; leave one of them out")


def keywords(options: Mapping[str, Any], *excluded: str) -> dict[str, Any]:
    """Return the options that have a value, except those `excluded`, and the progress, as keywords of a function."""
    excluded = ("quiet", "verbose", *excluded)
    values = {name: value for name, value in options.items() if value not in (None, []) and name not in excluded}
    return {**values, "progress": open_screen(options["quiet"], options.get("verbose", False))}


def on_workers(
    device: str, precision: str, threads: int | None, adapter: Path | None, overrides: Sequence[str], **settings: Any
) -> dict[str, Any]:
    """Return keywords that say how each process of a cluster loads a model and searches."""
    return {
        "device": device,
        "precision": precision,
        "threads": threads or 1,
        "adapter": adapter and str(adapter),
        "overrides": overrides,
        "settings": {name: value for name, value in settings.items() if value is not None},
    }


def typed(path: Path | str | None) -> str:
    """Return a path as it was typed; pathlib removes one slash of `s3://…`."""
    return re.sub(r"^([a-z][a-z0-9+]+):/(?!/)", r"\1://", str(path))


def one_or_more(data: list[str]) -> str | list[str]:
    """Return the address of one text, or of several."""
    return data[0] if len(data) == 1 else data


def one_or_two(data: list[str]) -> str | tuple[str, str]:
    """Return the address of one file, or of two aligned ones."""
    if len(data) > 2:
        raise ConfigError(
            f"DATA is one file, or two that are aligned line by line, but {len(data)} names were given; name many "
            "files by a pattern in quotes, as in 'parts/*.tsv'"
        )
    return data[0] if len(data) == 1 else (data[0], data[1])
