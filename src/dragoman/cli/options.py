"""The options that several commands share, so that each has one name and one explanation."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.config import Settings

S = TypeVar("S", bound="Settings")

Model = Annotated[
    Path,
    typer.Argument(help="A model folder, or a run folder (then its best/, else its final/).", show_default=False),
]
Data = Annotated[
    list[str],
    typer.Argument(
        help="Parallel text: a file (.tsv .csv .jsonl .parquet, also .gz), two aligned files, the beginning of their "
        "names, a folder with train.*, hub:NAME:CONFIG, or phrasebook.",
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one setting; may be given several times."),
]
Minutes = Annotated[
    float | None, typer.Option(help="Minutes of training, counted in steps before it begins.", show_default="30")
]
Name = Annotated[str | None, typer.Option(help="Name of the run.", show_default="from the recipe or data")]
Runs = Annotated[Path, typer.Option(help="The folder that runs lie in.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Begin a new run under a new name; nothing is deleted.")]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Go on although the machine is another one; the weights will differ.")
]
BeamSize = Annotated[int | None, typer.Option(help="Hypotheses kept at each step; 1 is greedy.", show_default="4")]
LengthPenalty = Annotated[
    float | None, typer.Option(help="Exponent by which longer translations are favoured.", show_default="0.6")
]
Device = Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the model runs.")]
Precision = Annotated[Literal["auto", "float32", "bf16"], typer.Option(help="The numbers the model computes with.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Processor threads.", show_default="all cores")]
Format = Annotated[Literal["text", "json"], typer.Option("--format", help="How results are printed.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show results, warnings and errors alone.")]


def chosen(schema: type[S], group: str, overrides: Sequence[str] | None, base: S | None = None, **options: Any) -> S:
    """Settings from `base`, from the options that were given (not None), and from every `--set`, which wins.

    A key may be given with the name of its group in a recipe, as `train` takes it, or without.
    """
    from dragoman.config import check, override

    tables = base.model_dump(mode="json", exclude_none=True) if base else {}
    tables |= {name: value for name, value in options.items() if value is not None}
    plain = [text.removeprefix(f"{group}.") for text in overrides or ()]
    return check(override(tables, plain), "the command line", schema)


def with_minutes(overrides: Sequence[str] | None, minutes: float | None) -> list[str]:
    """The overrides, and the limit of the training time as one of them."""
    return [*(overrides or ()), *([] if minutes is None else [f"train.minutes={minutes}"])]


def test_set(run: Path) -> Path:
    """The test set of a run."""
    from dragoman.store import find_model

    find_model(run)
    path = run / "data" / "test.jsonl"
    if not path.is_file():
        raise ConfigError(f"{run} has no test set of its own, for it is no run folder; name a file")
    return path


def test_pairs(run: Path) -> list[tuple[str, str]]:
    from dragoman.data.prepare import read_split

    return list(read_split(test_set(run).parent, "test"))


def one_or_two(data: list[str]) -> str | tuple[str, str]:
    """One file, or two that are aligned."""
    if len(data) > 2:
        raise ConfigError(f"DATA is one file, or two that are aligned line by line, but {len(data)} names were given")
    return data[0] if len(data) == 1 else (data[0], data[1])
