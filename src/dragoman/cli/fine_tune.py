"""`dragoman fine-tune`: trains a finished model on other text."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dragoman
from dragoman import system
from dragoman.cli.evaluate import show_scores
from dragoman.cli.terminal.options import Data, Model, Quiet, Run, grouped, one_or_two
from dragoman.cli.terminal.screen import open_screen
from dragoman.cli.train import show_kept_scores

if TYPE_CHECKING:
    from dragoman.progress import Progress


@dataclass(frozen=True)
class FineTuning(Run):
    """The options of a run, with the defaults of fine-tuning."""

    name: Annotated[str | None, typer.Option(help="Name of the run.", show_default="from the model and the data")] = (
        None
    )
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Minutes of training; they become a number of steps before it begins.", show_default="6 epochs"
        ),
    ] = None
    freeze: Annotated[
        list[str] | None,
        typer.Option(
            help="Keep a part as it is: encoder, decoder.0, embeddings, norms, 'all but cross_attention' …; may be "
            "repeated."
        ),
    ] = None
    lora: Annotated[
        int | None,
        typer.Option(min=1, metavar="RANK", help="Train only adapters of this rank, into an adapter folder."),
    ] = None

    def options(self, progress: "Progress") -> dict[str, Any]:
        """As for any run; what is frozen and the rank of adapters become overrides, before those of `--set`."""
        given = super().options(progress)
        frozen = [f"tuning.freeze={json.dumps(self.freeze)}"] if self.freeze else []
        rank = [] if self.lora is None else [f"tuning.lora.rank={self.lora}"]
        return {**given, "overrides": [*frozen, *rank, *given.get("overrides", ())]}


@grouped
def fine_tune(
    model: Model,
    data: Data,
    run: FineTuning,
    mix_rate: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=0.99,
            help="Share of the model's old data in the text that it sees, so that it forgets little.",
            show_default="0.5, if that data is there",
        ),
    ] = None,
    mix_data: Annotated[
        Path | None,
        typer.Option(help="The old data, a folder of prepared data.", show_default="that of the model's run"),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Train a finished model on new text; score it on the old and the new test set, before and after."""
    screen = open_screen(quiet)
    dragoman.keep_freed_memory()
    result = dragoman.fine_tune(
        model, one_or_two(data), mix_rate=mix_rate, mix_data=mix_data, **run.options(screen.progress)
    )
    if result.before or result.after:
        show_scores([*result.before, *result.after])
    elif system.rank() == 0:
        show_kept_scores(result.folder)
    screen.note(f'translate with it: dragoman translate {result.folder} "..."')
    if any("old test" in each.system for each in result.after):
        screen.note(f"forget less of the old text: dragoman average {model} {result.folder} --to FOLDER")
    if run.lora is not None:
        screen.note(f"make one model of both: dragoman merge {result.folder} --to FOLDER")
