"""Commands that make a model folder from others: `merge`, `average`, `quantize`, `convert`, `export`."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

import dragoman
from dragoman.cli.console import note, open_screen, write
from dragoman.cli.options import Adapter, Folder, Model, Quiet, To
from dragoman.exporting import Target


def merge(
    adapter: Annotated[Path, typer.Argument(help="An adapter folder, or a run of adapters.", show_default=False)],
    to: To,
    base: Annotated[
        Path | None,
        typer.Option(
            help="The model that it belongs to.", show_default="its former place, or the one next to the adapter"
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Merge an adapter into a copy of its base: one whole model folder."""
    open_screen(quiet)
    note_use(dragoman.merge(adapter, to, base))


def average(
    before: Annotated[Path, typer.Argument(help="The model before fine-tuning.", show_default=False)],
    after: Annotated[Path, typer.Argument(help="The model after fine-tuning.", show_default=False)],
    to: To,
    share: Annotated[
        float,
        typer.Option(
            help="Share of the fine-tuned model: 0 is the one before, 1 the one after. Compare a few with evaluate.",
            show_default=False,
        ),
    ],
    quiet: Quiet = False,
) -> None:
    """Average a model before and after fine-tuning, so that less is forgotten."""
    open_screen(quiet)
    folder = dragoman.average(before, after, to, share)
    note(f"share {share:.2f} of the model after")
    note_use(folder)


def note_use(folder: Path) -> None:
    from dragoman.store.description import USES, read_config

    note(f"{folder} {USES[read_config(folder).model.family]}")


def quantize(
    model: Model,
    to: To,
    test: Annotated[
        str | None,
        typer.Option(
            help="Test pairs to score before and after, as evaluate takes them.", show_default="the run's own test set"
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Round a model's matrices to 8 bits: a quarter of the size, faster on a CPU, and scored before and after."""
    from dragoman.cli.evaluate import show

    progress = open_screen(quiet)
    result = dragoman.quantize(model, to, test, progress)
    note(f"{to}: weights of {result.bytes_after / 1e6:,.1f} MB instead of {result.bytes_before / 1e6:,.1f} MB")
    if result.scores is None:
        note("nothing was scored: give --test a file of pairs to see BLEU before and after")
    else:
        show(result.scores)


def convert(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A folder of transformers, or hub:OWNER/NAME: OPUS-MT, M2M-100, SMaLL-100, NLLB-200, mBART-50.",
            show_default=False,
        ),
    ],
    to: To,
    languages: Annotated[
        str | None,
        typer.Option(
            help="Languages to keep of a model of several, as in en,it,de; pieces of other scripts are left out. Of a "
            "Marian model: source and target, if its folder does not state them.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(help="Text in these languages: keep only the pieces that it has.", show_default=False),
    ] = None,
) -> None:
    """Convert a model of transformers into a model folder."""
    from dragoman.formats.lines import read_lines

    open_screen()
    texts = None if text is None else chain.from_iterable(map(read_lines, text))
    result = dragoman.convert(folder, to, None if languages is None else languages.split(","), texts)
    write(f"{result.folder} is {result.what}")
    write_notes(result.notes)


def export(
    model: Model,
    target: Annotated[
        Target,
        typer.Argument(help="The toolkit that reads the new folder; web: a page for a browser.", show_default=False),
    ],
    out: Folder,
    text: Annotated[
        Path | None,
        typer.Option(help="Sentences that prove the export, a line each.", show_default="64 of the run's own test set"),
    ] = None,
    adapter: Adapter = None,
) -> None:
    """Write a model for CTranslate2, transformers or a browser, after proving that it translates the same there."""
    from dragoman.formats.lines import read_lines

    texts = None if text is None else list(read_lines(text))
    result = dragoman.export(model, target, out, texts, adapter)
    write(f"{result.folder}: {result.proof or 'not proved'}")
    write_notes(result.notes)


def write_notes(notes: Sequence[str]) -> None:
    for line in notes:
        write(f"note: {line}")
