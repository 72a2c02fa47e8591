"""The command `report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dragoman
from dragoman.cli.console import note, open_screen, write, write_result, write_table
from dragoman.cli.evaluate import Require, show_scores
from dragoman.cli.options import Device, Format, Precision, Quiet, Set, SourceLanguage, TargetLanguage, Threads
from dragoman.errors import ConfigError, GateFailed

if TYPE_CHECKING:
    from dragoman.evaluating.trust_report import TrustReport


def report(
    system: Annotated[Path | None, typer.Argument(help="A model, or a finished run.", show_default=False)] = None,
    test: Annotated[
        str | None, typer.Argument(help="Test set, as for evaluate.", show_default="all of the run")
    ] = None,
    references: Annotated[
        list[Path] | None, typer.Argument(help="References of source sentences, a file each.", show_default=False)
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Another model, or a file with its translations of the first test set; may be repeated."),
    ] = None,
    comet: Annotated[Path | None, typer.Option(help="What comet-score --to_json wrote for the first test set.")] = None,
    documents: Annotated[
        Path | None, typer.Option("--input", help="Instead of SYSTEM: a document or folder that was translated.")
    ] = None,
    translated: Annotated[Path | None, typer.Option(help="The translation of --input, to be judged.")] = None,
    terms: Annotated[Path | None, typer.Option(help="Words with a fixed translation, as for translate.")] = None,
    require: Require = None,
    folder: Annotated[Path | None, typer.Option(help="Folder to write.", show_default="report, in the run")] = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    overrides: Set = None,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Write a page on whether to trust a model, or a finished translation: scores, errors by kind, what is untested."""
    from dragoman.evaluating.gates import check_gates, parse_gates

    progress, gates = open_screen(quiet), parse_gates(require or ())
    options: dict[str, Any] = {"terms": terms} | ({} if folder is None else {"folder": folder})
    languages = {"source_language": source_language, "target_language": target_language}
    languages = {name: language for name, language in languages.items() if language is not None}
    if documents is not None and translated is not None and not (system or against or comet or overrides):
        made = dragoman.report_documents(documents, translated, **languages, **options)
    elif system is not None and documents is None and translated is None:
        options |= {"device": device, "precision": precision, "threads": threads, "progress": progress}
        search = [f"decode.{name}={language}" for name, language in languages.items()]
        options |= {"against": against or (), "comet": comet, "overrides": [*search, *(overrides or ())]}
        made = dragoman.report(system, test, references or (), **options)
    else:
        raise ConfigError("report takes a model or run, or --input with --translated, which are judged without a model")
    write_result(output_format, made.model_dump(mode="json"), lambda: show_report(made))
    note(f"the page is {made.page}; report.json next to it has all figures")
    check_gates(gates, made.figures)
    if gates and made.problems:
        (name, problem), *others = made.problems
        raise GateFailed(f"--require: {1 + len(others):,} files were not judged as a whole, first {name} ({problem})")


def show_report(made: "TrustReport") -> None:
    """Write the scores, and the errors by kind."""
    if made.tests:
        show_scores([evaluation for test in made.tests for evaluation in (test.evaluation, *test.rivals)])
    errors = [(text, *row) for text, own in made.errors_by_text.items() for row in own.rows]
    if errors:
        write_table(["text", "errors", "lines", "share", "meaning"], errors)
    else:
        write("no error was found")
