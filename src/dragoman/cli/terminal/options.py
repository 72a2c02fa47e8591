"""The options that several commands share, so that each has one name and one explanation. Classes group them.

A command decorated with `grouped` that takes such a class as an argument has all options of the class.
"""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import typer

import dragoman
from dragoman.errors import ConfigError
from dragoman.system import MOST_THREADS

if TYPE_CHECKING:
    from dragoman.evaluating.metrics import Measures
    from dragoman.inference.generator import Generator
    from dragoman.inference.predictor import Predictor
    from dragoman.inference.translator import Translator
    from dragoman.progress import Progress


Model = Annotated[
    Path,
    typer.Argument(help="A model folder, or a run folder (its best/, else its final/).", show_default=False),
]
To = Annotated[Path, typer.Option("--to", help="The new model folder.", show_default=False)]
Adapter = Annotated[
    Path | None,
    typer.Option("--adapter", help="An adapter of MODEL: its folder, or the run that trained it.", show_default=False),
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        "--ensemble", help="A further model that translates with MODEL as one; may be repeated.", show_default=False
    ),
]
Data = Annotated[
    list[str],
    typer.Argument(
        help="Parallel text: a file (.tsv .csv .jsonl .parquet, also .gz), two aligned files, the beginning of their "
        "names, a pattern in quotes ('parts/*.tsv'), a folder with train.*, hub:NAME:CONFIG, or phrasebook.",
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change one setting; may be repeated. `dragoman settings` lists them."
    ),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        help="Minutes of training; they become a number of steps before it begins.",
        show_default="30; of labelled text 20 epochs",
    ),
]
Name = Annotated[str | None, typer.Option(help="Name of the run.", show_default="from the recipe or data")]
Runs = Annotated[Path, typer.Option(help="The folder that holds the runs.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Begin a new run under a new name. Nothing is deleted.")]
Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway",
        help="Go on although the machine has changed (the weights will differ) or the data (the run keeps its own).",
    ),
]
BeamSize = Annotated[
    int | None,
    typer.Option(help="Hypotheses kept at each step; 1 is greedy.", show_default="the model's own, usually 4"),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        help="Exponent by which longer translations are favoured.", show_default="the model's own, usually 0.6"
    ),
]
Device = Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the model runs.")]
Precision = Annotated[
    Literal["auto", "float32", "bf16", "int8"],
    typer.Option(help="The number format that the model computes in; int8 is for translation and language models."),
]
Threads = Annotated[
    int | None, typer.Option(min=1, max=MOST_THREADS, help="Processor threads.", show_default="all cores")
]
Format = Annotated[Literal["text", "json"], typer.Option("--format", help="How results are printed.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show only results, warnings and errors.")]


@dataclass(frozen=True)
class Run:
    """The options of every run."""

    overrides: Set = None
    name: Name = None
    runs: Runs = Path("runs")
    fresh: Fresh = False
    anyway: Anyway = False
    device: Device = "auto"
    threads: Threads = None
    minutes: Minutes = None

    def options(self, progress: "Progress") -> dict[str, Any]:
        """As `train`, and every function that calls it, takes them; the limit in minutes becomes an override."""
        return {
            "overrides": with_minutes(self.overrides, self.minutes),
            "name": self.name,
            "runs": self.runs,
            "fresh": self.fresh,
            "anyway": self.anyway,
            "device": self.device,
            "threads": self.threads,
            "progress": progress,
        }


class PlaceOptions(TypedDict):
    device: str
    precision: str
    threads: int | None


@dataclass(frozen=True)
class Place:
    """Where and in which numbers a model runs."""

    device: Device = "auto"
    precision: Precision = "auto"
    threads: Threads = None

    def options(self) -> PlaceOptions:
        """As every function that loads a model takes them."""
        return {"device": self.device, "precision": self.precision, "threads": self.threads}

    def load(
        self, model: Path, progress: "Progress", adapter: Path | None = None, ensemble: Sequence[Path] = ()
    ) -> "Translator":
        """The translator of a model, with an adapter and an ensemble if they are given."""
        return dragoman.Translator.load(model, progress=progress, adapter=adapter, ensemble=ensemble, **self.options())

    def load_generator(self, model: Path, progress: "Progress") -> "Generator":
        """The generator of a language model."""
        return dragoman.Generator.load(model, progress=progress, **self.options())

    def load_predictor(self, model: Path, progress: "Progress") -> "Predictor":
        """The predictor of a model with an encoder alone."""
        return dragoman.Predictor.load(model, progress=progress, **self.options())


@dataclass(frozen=True)
class Search:
    """How translations are searched for."""

    beam_size: BeamSize = None
    length_penalty: LengthPenalty = None
    settings: Set = None

    @property
    def overrides(self) -> list[str]:
        """All of them as `dotted.key=value`; a `--set` comes last, so that it wins."""
        from dragoman.inference.options import DRAWS

        asked = {"beam_size": self.beam_size, "length_penalty": self.length_penalty}
        given = [f"decode.{name}={value}" for name, value in asked.items() if value is not None]
        drawn = [text for text in self.settings or () if text.partition("=")[0].split(".")[-1].strip() in DRAWS]
        if drawn and (self.beam_size or 1) > 1:
            raise ConfigError(
                f"{drawn[0]} draws samples and --beam-size {self.beam_size} searches; leave one of them out"
            )
        return [*given, *(self.settings or ())]


@dataclass(frozen=True)
class Scoring:
    """How translations are scored."""

    metric: Annotated[
        list[str] | None, typer.Option(help="bleu, chrf or ter; may be repeated.", show_default="all three")
    ] = None
    language: Annotated[str, typer.Option(help="Language of the translations.", show_default="from the names")] = "und"
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case in BLEU and chrF, as old papers do.")] = (
        False
    )
    samples: Annotated[int, typer.Option(min=0, help="Bootstrap samples for the intervals.")] = 1000

    def measures(self) -> "Measures":
        from dragoman.evaluating.metrics import METRICS

        return {"metrics": self.metric or METRICS, "language": self.language, "lowercase": self.lowercase}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of its groups as parameters of its own, in the place of each group.

    Typer reads them from the signature.
    """
    parameters = inspect.signature(command).parameters
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in parameters.items()
        if dataclasses.is_dataclass(parameter.annotation)
    }

    @wraps(command)
    def spelt_out(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        command(**given)

    options = [
        option
        for name, parameter in parameters.items()
        for option in (inspect.signature(groups[name]).parameters.values() if name in groups else [parameter])
    ]
    options = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    spelt_out.__signature__ = inspect.Signature(options)  # pyright: ignore[reportAttributeAccessIssue]
    return spelt_out


def with_minutes(overrides: Sequence[str] | None, minutes: float | None) -> list[str]:
    """The overrides and a limit in minutes, which becomes one of them."""
    return [*(overrides or ()), *([] if minutes is None else [f"train.minutes={minutes}"])]


def one_or_two(data: list[str]) -> str | tuple[str, str]:
    """The address of one file, or of two aligned ones."""
    if len(data) > 2:
        raise ConfigError(
            f"DATA is one file, or two that are aligned line by line, but {len(data)} names were given; name many "
            "files by a pattern in quotes, as in 'parts/*.tsv'"
        )
    return data[0] if len(data) == 1 else (data[0], data[1])
