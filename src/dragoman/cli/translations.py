"""Translations at the command line: printed as text, ranked lists or JSON, with notes about their flags."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import dragoman
from dragoman.cli.console import as_json as json_of
from dragoman.cli.console import note, write, write_pieces, write_table, write_text
from dragoman.cli.streams import writer
from dragoman.errors import DataError
from dragoman.progress import Progress, silent

if TYPE_CHECKING:
    from dragoman.inference.options import SearchOptions
    from dragoman.inference.translation import Flag, Translation
    from dragoman.inference.translator import Translator


def converse(
    translator: "Translator",
    texts: Iterable[str],
    options: "SearchOptions",
    as_json: bool = False,
    known_words: frozenset[str] | None = None,
) -> "dragoman.Summary":
    """Translate texts as they arrive, and note words not in `known_words` (lower case), else not in the vocabulary."""
    summary = dragoman.Summary()
    for text in texts:
        translation = _write_one(translator, summary.texts + 1, text, options, as_json)
        summary.add(translation)
        if unknown := _unknown_words(translation, known_words):
            note(f"words that the model does not know: {', '.join(unknown)}", is_warning=True)
        _note_flags_of_one(translation)
        if translation.alternatives:
            note_columns(options, as_json)
    return summary


def _write_one(
    translator: "Translator", number: int, text: str, options: "SearchOptions", as_json: bool
) -> "Translation":
    """Translate and write one text; on a terminal its words appear as they are found."""
    if not (as_json or options.align or options.n_best > 1) and sys.stdout.isatty():
        return write_pieces(translator.stream(text, options))
    (translation,) = translator.translate([text], options, silent)
    write_text("\n".join(printed(number, translation, options, as_json)))
    return translation


def _unknown_words(translation: "Translation", known_words: frozenset[str] | None) -> Sequence[str]:
    from dragoman.text.phrasebook import words

    if known_words is None:
        return translation.unknown_words
    return [word for word in words(translation.source) if word not in known_words]


def _note_flags_of_one(translation: "Translation") -> None:
    from dragoman.inference.translation import HARMLESS

    for rank, ranked in enumerate((translation, *translation.alternatives), 1):
        subject = f"translation {rank} is " if translation.alternatives else ""
        for flag, meaning in meanings(set(ranked.flags) - {"unknown"}).items():  # unknown words are noted by name
            note(f"{subject}flagged {flag}: {meaning}", flag not in HARMLESS)


def write_translations(
    translator: "Translator",
    texts: Iterable[str],
    options: "SearchOptions",
    output: Path | None = None,
    as_json: bool = False,
    progress: Progress = silent,
    total: int | None = None,
) -> "dragoman.Summary":
    """Translate texts in chunks; a chunk ends early if no further text has arrived. An output file appears when it is
    complete; without one, translations are written to standard output.
    """
    summary = dragoman.Summary()
    with writer(output) as write:
        for chunk in dragoman.translate_lines(translator, texts, options, progress, summary=summary, total=total):
            first = summary.texts - len(chunk) + 1
            lines = (printed(*numbered, options, as_json) for numbered in enumerate(chunk, first))
            write("".join(f"{line}\n" for line in chain.from_iterable(lines)))
    note_flags(summary)
    note_columns(options, as_json)
    return summary


def compare(
    translator: "Translator", source: str, target: str, options: "SearchOptions", as_json: bool = False
) -> "dragoman.Summary":
    """Show a sentence of a test set, its reference and the model's translation."""
    (translation,) = translator.translate([source], options, silent)
    summary = dragoman.Summary()
    summary.add(translation)
    note_flags(summary)
    if as_json:
        write(json_of({"target": target, **asdict(translation)}))
        return summary
    write_text(f"source:     {source}\ntarget:     {target}\nprediction: {translation.text}")
    if options.align:
        write(f"alignment:  {pharaoh(translation)}")
    return summary


def printed(number: int, translation: "Translation", options: "SearchOptions", as_json: bool) -> list[str]:
    """Return the lines to print for the text with this number."""
    if as_json:
        return [json_of({"line": number, **asdict(translation)})]
    lines: list[str] = []
    for rank, alternative in enumerate((translation, *translation.alternatives), 1):
        ranked = [str(number), str(rank), f"{alternative.score:.4f}"] if options.n_best > 1 else []
        aligned = [pharaoh(alternative)] if options.align else []
        text = alternative.text.replace("\t", " ") if ranked or aligned else alternative.text
        lines.append("\t".join([*ranked, text, *aligned]))
    return lines


def pharaoh(translation: "Translation") -> str:
    """Format an alignment as Pharaoh and most tools do: `0-0 1-2`, source word and target word."""
    return " ".join(f"{source}-{target}" for source, target in translation.alignment)


def note_flags(summary: "dragoman.Summary") -> None:
    """Report how many texts have each flag, and where the first are."""
    from dragoman.inference.translation import HARMLESS

    unit = summary.unit if summary.texts == 1 else f"{summary.unit}s"
    for flag, meaning in meanings(+summary.counts).items():
        if flag != "left":  # the document's own remarks say why
            counted = f"{summary.counts[flag]:,} of {summary.texts:,} {unit}"
            note(f"{counted} flagged {flag}{places(summary, flag)}: {meaning}", flag not in HARMLESS)


def note_document(summary: "dragoman.Summary") -> None:
    """Report how many texts of a document were translated, left and flagged."""
    texts, translated, left, flagged = document_counts(summary)
    note(
        f"{texts:,} {'text' if texts == 1 else 'texts'}: {translated:,} translated, {left:,} left, "
        f"{flagged:,} flagged{places(summary, 'flagged')}"
    )


def document_counts(summary: "dragoman.Summary") -> tuple[int, int, int, int]:
    """Return the numbers of all texts of a document, and of those that were translated, left and flagged."""
    texts, left = summary.total, summary.counts["left"]
    translated = min(summary.counts["translated"], texts - left)
    return texts, translated, texts - translated, summary.counts["flagged"]


def write_files(files: "Sequence[dragoman.FolderFile]") -> "dragoman.Summary":
    """Write a table of the files of a folder; return the counts of all their texts.

    Raises:
        DataError: some of them failed.
    """
    total, rows = dragoman.Summary(), list[list[str]]()
    for file in files:
        counts = document_counts(file.summary) if file.summary else ()
        rows.append([file.name, file.state, *(f"{count:,}" for count in counts), *[""] * (4 - len(counts))])
        if file.summary is not None:
            total.texts += file.summary.texts
            total.counts += file.summary.counts
        total.counts["left"] += file.state == "unread"
    write_table(("file", "state", "texts", "translated", "left", "flagged"), rows)
    states = Counter(file.state for file in files)
    note(f"{len(files):,} files: {', '.join(f'{count:,} {state}' for state, count in states.items())}")
    if failed := [file.name for file in files if file.state == "failed"]:
        raise DataError(f"{len(failed):,} of {len(files):,} files failed, as said above (first: {failed[0]})")
    return total


def note_columns(options: "SearchOptions", as_json: bool) -> None:
    """Explain the columns of printed lists of the best translations."""
    if options.n_best > 1 and not as_json:
        note(
            "columns: line, rank, score, text; the nearer a score is to 0, the likelier the model finds the translation"
        )


def places(summary: "dragoman.Summary", flag: str) -> str:
    """Return the first texts with a flag in parentheses, such as ` (line 3, 17)`; empty if no text has it."""
    numbers = summary.places.get(flag, ())
    if not numbers:
        return ""
    more = ", …" if summary.counts[flag] > len(numbers) else ""
    if not summary.names:
        return f" (line {', '.join(map(str, numbers))}{more})"
    return f" ({', '.join(dict.fromkeys(summary.names[number - 1] for number in numbers))}{more})"


def meanings(flags: Iterable[str]) -> "dict[Flag, str]":
    """Return the meaning of each of these flags, in their usual order."""
    from dragoman.inference.translation import MEANINGS

    return {flag: meaning for flag, meaning in MEANINGS.items() if flag in flags}
