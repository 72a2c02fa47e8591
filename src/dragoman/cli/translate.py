"""The command `translate`: a text, lines, a file or a document in, its translation out."""

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dragoman
from dragoman.cli.console import note
from dragoman.cli.options import (
    Adapter,
    BeamSize,
    Device,
    Format,
    LengthPenalty,
    Model,
    Precision,
    Quiet,
    Ray,
    Set,
    TargetLanguage,
    Texts,
    Threads,
    on_workers,
    search_overrides,
    typed,
)
from dragoman.cli.screen import open_screen
from dragoman.cli.streams import check_text, read, standard_input
from dragoman.cli.work import Flags, Work, meanings, printed
from dragoman.errors import ConfigError, GateFailed
from dragoman.files import check_output, sha256
from dragoman.formats.lines import stored_in
from dragoman.formats.registry import DOCUMENT_FORMATS, listed

if TYPE_CHECKING:
    from dragoman.config import Content
    from dragoman.formats.document import Document
    from dragoman.inference.options import SearchOptions
    from dragoman.inference.translation import Flag
    from dragoman.inference.translator import Translator
    from dragoman.progress import Progress


def translate(
    model: Model,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    target_language: TargetLanguage = None,
    settings: Set = None,
    text: Texts = None,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", help="Translate every line of this file; of a document, its text."),
    ] = None,
    document_format: Annotated[
        str | None,
        typer.Option(
            help=f"Format of --input: {listed(DOCUMENT_FORMATS)}.",
            show_default="told by its name",
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
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Translate each line as it stands: markup too, and quotes, spaces and capitals."),
    ] = False,
    protect: Annotated[
        list[str] | None,
        typer.Option(help="Keep what this regular expression finds as it is; may be repeated.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the translations to this file. With --input, run the same command again to resume."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Discard what a stopped command left beside --output, and start again.")
    ] = False,
    item: Annotated[
        int | None,
        typer.Option(min=1, help="Sentence of the run's test set, from 1: shows source, target, prediction."),
    ] = None,
    n_best: Annotated[
        int | None, typer.Option(help="Translations of each text; with text output: line, rank, score, text.")
    ] = None,
    align: Annotated[
        bool,
        typer.Option("--align", help="Show which word translates which; with text output: text, tab, 0-0 1-2 …."),
    ] = False,
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
    from dragoman.config import choose
    from dragoman.formats.terms import read_terms

    progress = open_screen(quiet)
    refuse_contradictions(text, input_file, item, output, fresh)
    refused = flags_named(fail_on or ())
    for_documents = [text for text in settings or () if text.strip().startswith("document.")]
    others = [text for text in settings or () if text not in for_documents]
    overrides = search_overrides(beam_size, length_penalty, others, target_language)
    given = {
        "n_best": n_best,
        "align": align or None,
        "raw": raw or None,
        "protect": tuple(protect or ()) or None,
        "terms": None if terms is None else read_terms(terms),
    }
    if ray is not None:
        refuse_on_cluster(
            input_file,
            output,
            {
                "--document-format": document_format,
                "--ensemble": ensemble,
                "--fresh": fresh,
                "a second --only": (only or ())[1:],
            },
        )
        loading = on_workers(device, precision, threads, adapter, overrides, **given)
        refuse_flags(on_cluster((model, input_file, output), ray, only, output_format, progress, loading), refused)
        return
    is_document = is_whole(input_file, output, document_format, raw, only)
    resumes = output is not None and can_resume(input_file, output)
    if is_document and (not resumes or output_format == "json"):
        raise ConfigError(f"{input_file} is a document, so it needs a file as its --output, and takes no JSON")
    total = None if is_document else count_lines(input_file, raw)
    pair = None if item is None else test_pair(model, item)

    translator = dragoman.Translator.load(model, device, precision, progress, adapter, ensemble or (), threads)
    options = choose(dragoman.SearchOptions, "decode", overrides, translator.options, **given)
    if is_document and (options.raw or options.align or options.n_best > 1):
        raise ConfigError(f"{input_file} is a document, which takes no decode.raw, --align or --n-best")
    languages = note_workers(translator, options)
    work = Work(progress, translator, options, output_format == "json")
    if pair is not None:
        flags = work.compare(*pair)
    elif input_file is not None and output is not None and resumes:
        whole = (input_file, languages, document_format, only or (), for_documents)
        document, facts = read_whole(*whole) if is_document else (None, None)
        asked = what_decides([model, *(ensemble or ())], adapter, work, facts)
        flags = work.complete(input_file, document, output, asked, fresh, total)
    elif input_file is not None:
        flags = work.translate_all(read(input_file), output, total)
    elif output is None and (len(text) == 1 if text else sys.stdin.isatty()):
        flags = work.say(text or standard_input())
    else:
        flags = work.translate_all(text or standard_input(), output)
    refuse_flags(flags, refused)


def read_whole(
    path: Path, languages: tuple[str, str], document_format: str | None, only: Sequence[str], settings: Sequence[str]
) -> "tuple[Document, list[Any]]":
    """Return a document, read within the limits of `document.key=value`, and all that its texts depend on."""
    from dragoman.config import choose
    from dragoman.formats.reading import DocumentLimits, read_document

    document = read_document(path, languages, document_format, only, choose(DocumentLimits, "document", settings))
    return document, [document_format or path.suffix, only, sha256(stored_in(path))]


def refuse_contradictions(
    text: list[str] | None, input_file: Path | None, item: int | None, output: Path | None, fresh: bool
) -> None:
    """Refuses inputs and outputs that do not go together."""
    inputs = {"TEXT": text or None, "--input": input_file, "--item": item}
    given = [name for name, value in inputs.items() if value is not None]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} were given; translate takes one of TEXT, --input and --item")
    for each in text or ():
        check_text(each)
    if fresh and (input_file is None or output is None):
        raise ConfigError("--fresh starts a file again, so it needs --input and --output")
    if item is not None and output is not None:
        raise ConfigError("--item shows one sentence beside its target; --output takes TEXT, --input or standard input")


def refuse_on_cluster(input_file: Path | None, output: Path | None, others: dict[str, Any]) -> None:
    """Refuses what a cluster does not do."""
    if input_file is None or output is None:
        raise ConfigError("--ray translates many files: name them by a pattern as --input, and a folder as --output")
    if asked := [name for name, value in others.items() if value]:
        raise ConfigError(f"{asked[0]} is not for --ray, which translates lines and records with one model")


def on_cluster(
    files: Sequence[Path | None],
    ray: str,
    only: Sequence[str] | None,
    output_format: str,
    progress: "Progress",
    loading: dict[str, Any],
) -> Flags:
    """Translates shards with a model into a folder; `files` are the three. Returns the flags."""
    model, texts, folder = map(typed, files)
    as_json = output_format == "json"
    write, suffix = partial(printed, as_json=as_json), "jsonl" if as_json else "txt"
    column = only[0] if only else None
    lines, counts = dragoman.translate_shards(model, texts, folder, ray, column, write, suffix, progress, **loading)
    flags = Flags(counts, {})
    flags.note(lines)
    return flags


def note_workers(translator: "Translator", options: "SearchOptions") -> tuple[str, str]:
    """Says what translates, and where; returns the languages."""
    count = translator.search.workers(options)
    workers = "1 worker" if count == 1 else f"up to {count} workers"
    source, target = translator.languages[0], options.target_language or translator.languages[1]
    note(f"{source} → {target}, {translator.device}, {translator.precision}, {workers}")
    return source, target


def refuse_flags(flags: Flags, refused: "Iterable[Flag]") -> None:
    """Ends with `GateFailed` if a translation has a flag that is refused."""
    if found := [f"{flag}{flags.where(flag)}" for flag in refused if flags.counts[flag]]:
        raise GateFailed(f"--fail-on: some translations are flagged {', '.join(found)}")


def is_whole(
    input_file: Path | None, output: Path | None, document_format: str | None, raw: bool, only: Sequence[str] | None
) -> bool:
    """Whether a file is translated as a whole document, which stays of its kind."""
    from dragoman.formats.reading import format_of

    if document_format is not None and (input_file is None or raw):
        raise ConfigError("--document-format says what --input is, and --raw translates its lines; give --input alone")
    named = format_of(input_file) if input_file else None
    is_document = not raw and bool(document_format or named)
    if only and not is_document:
        raise ConfigError("--only names columns or keys of a document; give one as --input")
    if is_document and not document_format and output and output.suffix:
        stays = input_file.suffix.lower() if input_file and named in ("docx", "xlsx") else named
        if stays not in (format_of(output), output.suffix.lower()):
            raise ConfigError(f"{input_file} stays {stays}; name --output so, not {output.name}")
    return is_document


def flags_named(names: Iterable[str]) -> "list[Flag]":
    """The flags of these names, of which several may stand together with commas between them."""
    from dragoman.inference.translation import MEANINGS

    given = {name.strip() for each in names for name in each.split(",")}
    if unknown := sorted(given - MEANINGS.keys()):
        raise ConfigError(f"--fail-on: there is no flag {unknown[0]!r}, only {', '.join(MEANINGS)}")
    return list(meanings(given))


def count_lines(path: Path | None, raw: bool) -> int | None:
    """How many lines a file has, which is read to its end, so that a damaged one is refused. Unless they are taken
    `raw`, a file that is no plain text is refused too.
    """
    from dragoman.formats.foreign import refuse_document

    if path is None:
        return None
    if not raw:
        refuse_document(path, read(path))
    return sum(1 for _ in read(path))


def can_resume(input_file: Path | None, output: Path) -> bool:
    """Whether a stopped command can be resumed; a pipe or a device takes lines once. Refuses an output that would
    overwrite something.
    """
    from dragoman.inference.resumable import check_working_files

    check_output(output, input_file)
    if input_file is None or (output.exists() and not output.is_file()):
        return False
    check_working_files(output, input_file)
    return True


def test_pair(run: Path, item: int) -> tuple[str, str]:
    """One sentence of a run's test set, counted from 1."""
    from dragoman.evaluating.references import own_test_pairs

    pairs = own_test_pairs(run)
    if item > len(pairs):
        raise ConfigError(f"--item must be from 1 to {len(pairs):,}, the size of the test set, but is {item:,}")
    return pairs[item - 1]


def what_decides(models: Sequence[Path], adapter: Path | None, work: Work, document: list[Any] | None) -> "Content":
    """Return the identity of a translation. A `document` is known by its format, its chosen columns and its SHA-256."""
    from dragoman.inference.resumable import identity

    place = {"device": work.translator.device, "precision": work.translator.precision}
    return identity(models, adapter, work.options, **place, as_json=work.as_json, document=document)
