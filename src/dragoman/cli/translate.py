"""The command `translate`: a text, lines, a file or a document in, its translation out."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dragoman
from dragoman.cli.console import note, open_screen
from dragoman.cli.options import (
    Adapter,
    Align,
    BeamSize,
    Device,
    Format,
    LengthPenalty,
    Model,
    NBest,
    Pivot,
    Precision,
    Protect,
    Quiet,
    Raw,
    Ray,
    Set,
    SourceLanguage,
    TargetLanguage,
    Texts,
    Threads,
    on_workers,
    refuse_beam_of_samples,
    typed,
)
from dragoman.cli.streams import check_text, read, standard_input
from dragoman.cli.translations import (
    compare,
    converse,
    meanings,
    note_columns,
    note_document,
    note_flags,
    places,
    printed,
    write_files,
    write_translations,
)
from dragoman.errors import ConfigError, GateFailed
from dragoman.files import check_output
from dragoman.formats.registry import DOCUMENT_FORMATS, listed

if TYPE_CHECKING:
    from typing import TypeGuard

    from dragoman.inference.translation import Flag
    from dragoman.progress import Progress


def translate(
    model: Model,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    pivot: Pivot = None,
    settings: Set = None,
    text: Texts = None,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", help="Translate every line of this file; of a document, its text; of a folder, all."),
    ] = None,
    document_format: Annotated[
        str | None,
        typer.Option(
            help=f"Format of --input: {listed(DOCUMENT_FORMATS)}.",
            show_default="by its name",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Translate only this column of a table, or these keys of JSON: a name, the number of a column, or a "
            "pattern as '*.title'; may be repeated.",
            show_default="all",
        ),
    ] = None,
    raw: Raw = None,
    protect: Protect = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the translations to this file. With --input, run the same command again to resume."),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            help="Instead of --output: an earlier translation of the document or folder, whose texts stay; only new "
            "ones are translated.",
            show_default=False,
        ),
    ] = None,
    review: Annotated[
        Path | None,
        typer.Option(
            help="A table (XLSX) of all texts and translations of the document or folder: if it exists, its "
            "translations are used, as a person has corrected them; then it is written.",
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Discard the results of a stopped command, and start again.")
    ] = False,
    item: Annotated[
        int | None,
        typer.Option(min=1, help="Sentence of the run's test set, from 1: shows source, target, prediction."),
    ] = None,
    n_best: NBest = None,
    align: Align = None,
    terms: Annotated[
        Path | None,
        typer.Option(
            help="Words with a fixed translation: a TSV or CSV file of source terms, each followed by its forms.",
            show_default=False,
        ),
    ] = None,
    adapter: Adapter = None,
    ensemble: Annotated[
        list[Path] | None,
        typer.Option(help="A further model that translates with MODEL as one; may be repeated.", show_default=False),
    ] = None,
    ray: Ray = None,
    output_format: Format = "text",
    fail_on: Annotated[
        list[str] | None, typer.Option(metavar="FLAG,…", help="End with exit code 9 if a translation has such a flag.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Translate text: one line in, one line out."""
    progress = open_screen(quiet)
    output = check_inputs(text, input_file, item, output, into, fresh)
    refused = flags_named(fail_on or ())
    document_settings = [setting for setting in settings or () if setting.strip().startswith("document.")]
    others = [setting for setting in settings or () if setting not in document_settings]
    refuse_beam_of_samples(beam_size, others)
    changes = {
        "beam_size": beam_size,
        "length_penalty": length_penalty,
        "source_language": source_language,
        "target_language": target_language,
        "pivot": pivot,
        "raw": raw,
        "protect": protect,
        "n_best": n_best,
        "align": align,
    }
    if terms is not None:
        from dragoman.formats.terms import read_terms

        changes["terms"] = read_terms(terms)
    setup = Setup(
        model,
        (device, precision, threads),
        adapter,
        ensemble or (),
        others,
        changes,
        output_format == "json",
        progress,
    )
    kept = {"into": into is not None, "review": review, "fresh": fresh}
    if ray is not None:
        check_cluster(
            input_file,
            output,
            {
                "--document-format": document_format,
                "--ensemble": ensemble,
                "--fresh": fresh,
                "--into": into,
                "--review": review,
                "a second --only": (only or ())[1:],
                "--set document.…": document_settings,
            },
        )
        summary = translate_on_cluster(setup, ray, input_file, output, only)
    elif input_file is not None and input_file.is_dir():
        if document_format or only or raw:
            raise ConfigError("--document-format, --only and --raw are for one file, and --input is a folder")
        summary = translate_folder(setup, input_file, output, document_settings, kept)
    elif (input_file or document_format or only) and is_whole(input_file, output, document_format, bool(raw), only):
        summary = translate_whole(setup, input_file, output, document_format, only or (), document_settings, kept)
    elif document_settings or into or review:
        option = "--into" if into else "--review" if review else f"--set {document_settings[0]}"
        raise ConfigError(f"{option} is for a document or a folder; give one as --input")
    elif item is not None:
        summary = show_test_sentence(setup, item)
    elif input_file is not None:
        summary = translate_file(setup, input_file, output, fresh, bool(raw))
    else:
        summary = translate_texts(setup, text, output)
    check_flags(summary, refused)


@dataclass(frozen=True)
class Setup:
    """Model, search options and form of the results of one command."""

    model: Path
    place: tuple[str, str, int | None]
    """Device, precision and number of threads."""
    adapter: Path | None
    ensemble: Sequence[Path]
    overrides: Sequence[str]
    changes: dict[str, Any]
    """Fields of `SearchOptions`; None keeps the model's own."""
    as_json: bool
    progress: "Progress"

    def load(self, tags: bool = False) -> "tuple[dragoman.Translator, dragoman.SearchOptions]":
        """Load the model, and report direction, device and number of workers. `tags` may name the target language."""
        from dragoman.config import choose
        from dragoman.directions import SEVERAL

        device, precision, threads = self.place
        translator = dragoman.Translator.load(
            self.model, device, precision, self.progress, self.adapter, self.ensemble, threads
        )
        options = choose(dragoman.SearchOptions, "decode", self.overrides, translator.options, **self.changes)
        count = translator.search.workers(options)
        workers = "1 worker" if count == 1 else f"up to {count} workers"
        translator = translator.bound(options) if tags else translator.directed(options)
        source, target = options.source_language or translator.languages[0], translator.languages[1]
        target = target.replace(SEVERAL, "as tags say")
        note(f"{source} → {target}, {translator.device}, {translator.precision}, {workers}")
        return translator, options


def translate_on_cluster(
    setup: Setup, ray: str, input_file: Path | None, output: Path | None, only: Sequence[str] | None
) -> "dragoman.Summary":
    """Translate the shards that match a pattern, on a Ray cluster, into a folder."""
    loading = on_workers(*setup.place, setup.adapter, setup.overrides, **setup.changes)
    write, suffix = partial(printed, as_json=setup.as_json), "jsonl" if setup.as_json else "txt"
    names = typed(setup.model), typed(input_file), typed(output)
    column = only[0] if only else None
    counts = dragoman.translate_shards(*names, ray, column, write, suffix, setup.progress, **loading)
    summary = dragoman.Summary(*counts)
    note_flags(summary)
    return summary


def show_test_sentence(setup: Setup, item: int) -> "dragoman.Summary":
    """Show a sentence of the run's test set, counted from 1, with its reference and translation."""
    from dragoman.evaluating.references import own_test_pairs

    languages = {side: setup.changes[side] for side in ("source_language", "target_language")}
    pairs = own_test_pairs(setup.model, dragoman.SearchOptions(**languages))
    if item > len(pairs):
        raise ConfigError(f"--item must be from 1 to {len(pairs):,}, the size of the test set, but is {item:,}")
    translator, options = setup.load()
    return compare(translator, *pairs[item - 1], options, setup.as_json)


def translate_whole(
    setup: Setup,
    input_file: Path,
    output: Path | None,
    document_format: str | None,
    only: Sequence[str],
    document_settings: Sequence[str],
    kept: dict[str, Any],
) -> "dragoman.Summary":
    """Translate a document into another file, which a stopped command resumes."""
    from dragoman.config import choose
    from dragoman.formats.reading import DocumentSettings
    from dragoman.runs.signals import interrupted_by_signals

    chosen = choose(DocumentSettings, "document", document_settings)
    if output is None or not can_resume(input_file, output) or setup.as_json:
        raise ConfigError(f"{input_file} is a document, so it needs a file as its --output, and takes no JSON")
    translator, options = setup.load()
    with interrupted_by_signals():
        summary = dragoman.translate_document(
            translator,
            input_file,
            output,
            options,
            document_format,
            only,
            document_settings=chosen,
            progress=setup.progress,
            **kept,
        )
    note_flags(summary)
    note_document(summary)
    return summary


def translate_folder(
    setup: Setup, folder: Path, output: Path | None, document_settings: Sequence[str], kept: dict[str, Any]
) -> "dragoman.Summary":
    """Translate the documents of a folder into another folder, and show a table of its files."""
    from dragoman.config import choose
    from dragoman.formats.reading import DocumentSettings
    from dragoman.inference.folders import check_folders
    from dragoman.runs.signals import interrupted_by_signals

    chosen = choose(DocumentSettings, "document", document_settings)
    if output is None or setup.as_json:
        raise ConfigError(f"{folder} is a folder, so it needs a folder as its --output, and takes no JSON")
    check_folders(folder, output)
    translator, options = setup.load()
    with interrupted_by_signals():
        files = dragoman.translate_folder(
            translator, folder, output, options, document_settings=chosen, progress=setup.progress, **kept
        )
    return write_files(files)


def translate_file(setup: Setup, input_file: Path, output: Path | None, fresh: bool, raw: bool) -> "dragoman.Summary":
    """Translate the lines of a file, into another file, which a stopped command resumes, or to standard output."""
    from dragoman.inference import documents
    from dragoman.runs.signals import interrupted_by_signals

    resumes = output is not None and can_resume(input_file, output)
    total = count_lines(input_file, raw)
    translator, options = setup.load(tags=True)
    lines = read(input_file)
    if output is None or not resumes:
        return write_translations(translator, lines, options, output, setup.as_json, setup.progress, total)
    with interrupted_by_signals():
        summary = documents.translate_file(
            translator,
            input_file,
            lines,
            output,
            options,
            setup.progress,
            write=partial(printed, options=options, as_json=setup.as_json),
            fresh=fresh,
            total=total,
            as_json=setup.as_json,
        )
    note_flags(summary)
    note_columns(options, setup.as_json)
    return summary


def translate_texts(setup: Setup, text: Sequence[str] | None, output: Path | None) -> "dragoman.Summary":
    """Translate the texts on the command line, or the lines of standard input."""
    if output is not None:
        check_output(output)
    translator, options = setup.load(tags=True)
    if output is None and (len(text) == 1 if text else sys.stdin.isatty()):
        return converse(translator, text or standard_input(), options, setup.as_json)
    return write_translations(translator, text or standard_input(), options, output, setup.as_json, setup.progress)


def check_inputs(
    text: list[str] | None,
    input_file: Path | None,
    item: int | None,
    output: Path | None,
    into: Path | None,
    fresh: bool,
) -> Path | None:
    """Return the file to write; raise `ConfigError` if inputs and outputs contradict each other."""
    if into is not None:
        if output is not None or fresh:
            raise ConfigError(
                f"--into is itself what is written, so it goes without {'--output' if output else '--fresh'}"
            )
        if not into.exists():
            raise ConfigError(f"--into {into} does not exist yet; name it as --output")
        output = into
    inputs = {"TEXT": text or None, "--input": input_file, "--item": item}
    names = [name for name, value in inputs.items() if value is not None]
    if len(names) > 1:
        raise ConfigError(f"{' and '.join(names)} were given; translate takes one of TEXT, --input and --item")
    for sentence in text or ():
        check_text(sentence)
    if fresh and (input_file is None or output is None):
        raise ConfigError("--fresh starts a file again, so it needs --input and --output")
    if item is not None and output is not None:
        raise ConfigError("--item shows a sentence and its target; --output takes TEXT, --input or standard input")
    return output


def check_cluster(input_file: Path | None, output: Path | None, others: dict[str, Any]) -> None:
    """Raise `ConfigError` if an option is given that a cluster does not support."""
    if input_file is None or output is None:
        raise ConfigError("--ray translates many files: name them by a pattern as --input, and a folder as --output")
    if unsupported := [name for name, value in others.items() if value]:
        raise ConfigError(f"{unsupported[0]} is not for --ray, which translates lines and records with one model")


def check_flags(summary: "dragoman.Summary", refused: "Iterable[Flag]") -> None:
    """Raise `GateFailed` if a translation has a flag that is refused."""
    if flags := [f"{flag}{places(summary, flag)}" for flag in refused if summary.counts[flag]]:
        raise GateFailed(f"--fail-on: some translations are flagged {', '.join(flags)}")


def flags_named(names: Iterable[str]) -> "list[Flag]":
    """Return the flags with these names; a string may contain several with commas between them."""
    from dragoman.inference.translation import MEANINGS

    flags = {name.strip() for text in names for name in text.split(",")}
    if unknown := sorted(flags - MEANINGS.keys()):
        raise ConfigError(f"--fail-on: there is no flag {unknown[0]!r}, only {', '.join(MEANINGS)}")
    return list(meanings(flags))


def is_whole(
    input_file: Path | None, output: Path | None, document_format: str | None, raw: bool, only: Sequence[str] | None
) -> "TypeGuard[Path]":
    """Return True if the input is translated as a whole document, which keeps its format."""
    from dragoman.formats.reading import format_of

    if document_format is not None and (input_file is None or raw):
        raise ConfigError("--document-format says what --input is, and --raw translates its lines; give --input alone")
    named = format_of(input_file) if input_file else None
    is_document = not raw and bool(document_format or named)
    if only and not is_document:
        raise ConfigError("--only names columns or keys of a document; give one as --input")
    if is_document and not document_format and output and output.suffix:
        stays = input_file.suffix.lower() if input_file and named and DOCUMENT_FORMATS[named].archive else named
        if stays not in (format_of(output), output.suffix.lower()):
            raise ConfigError(f"{input_file} stays {stays}; name --output so, not {output.name}")
    return is_document


def count_lines(path: Path, raw: bool) -> int:
    """Return the number of lines of a file; refuse a damaged one, and unless `raw` one that is no plain text."""
    from dragoman.formats.foreign import refuse_document

    if not raw:
        refuse_document(path, read(path))
    return sum(1 for _ in read(path))


def can_resume(input_file: Path, output: Path) -> bool:
    """Return True if a stopped command can resume; raise `DataError` if the output would overwrite another file."""
    from dragoman.inference.resumable import check_working_files

    check_output(output, input_file)
    if output.exists() and not output.is_file():
        return False
    check_working_files(output, input_file)
    return True
