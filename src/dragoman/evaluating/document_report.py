"""Reports on whether to trust a finished translation of documents, without references (`report_documents`)."""

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import dragoman
from dragoman.errors import ConfigError, DataError, MissingExtra
from dragoman.evaluating.error_kinds import Judge
from dragoman.evaluating.report_page import PAGE, check_folder, write_report
from dragoman.evaluating.trust_report import TrustReport, count_errors
from dragoman.formats.lines import read_lines
from dragoman.formats.reading import read_document
from dragoman.formats.terms import read_terms
from dragoman.inference.folders import files_in, format_to_translate
from dragoman.inference.translation import Translation
from dragoman.languages import UNKNOWN_LANGUAGE, is_code
from dragoman.system import describe
from dragoman.text.readers import open_pairs

log = logging.getLogger(__name__)


def report_documents(
    source: Path | str,
    translated: Path | str,
    *,
    source_language: str = UNKNOWN_LANGUAGE,
    target_language: str = UNKNOWN_LANGUAGE,
    terms: Path | str | None = None,
    folder: Path | str = "report",
) -> TrustReport:
    """Write a report on a finished translation of a document or a folder, as `report` does: errors by kind, without
    references.

    Raises:
        DataError: a file cannot be read, or there is no text with a translation.
    """
    languages = source_language, target_language
    for code in {*languages} - {UNKNOWN_LANGUAGE}:
        if not is_code(code):
            raise ConfigError(f"{code} is no code of a language; write one such as en or pt-BR")
    source, translated, folder = Path(source), Path(translated), Path(folder)
    check_folder(folder, source, translated, terms)
    for path in (source, translated):
        if not path.exists() or path.is_dir() != source.is_dir():
            raise DataError(f"{path} is no {'folder' if source.is_dir() else 'file'}; give two files, or two folders")
    lines, places, files = list[Translation](), list[str](), list[tuple[str, int, str]]()
    for name in files_in(source, translated, folder) if source.is_dir() else [""]:
        texts, left_out = list[tuple[str, Translation]](), Counter[str]()
        try:
            texts.extend(_document_texts(source / name, translated / name, languages, left_out, not name))
            problem = ", ".join(f"{count:,} {what}" for what, count in left_out.items())
        except (ConfigError, DataError, MissingExtra) as error:
            texts, problem = [], str(error)
        if problem:
            log.warning("%s: %s", source / name, problem)
        files += [(name or source.name, len(texts), problem)] if texts or problem else []
        places += [" ".join(filter(None, (name, place))) for place, _ in texts]
        lines += [line for _, line in texts]
    if not lines:
        problem = next((problem for *_, problem in files), f"{source} has no text that is translated")
        raise DataError(f"there is nothing to judge: {problem}")
    judge = Judge(lines, languages, tuple(read_terms(Path(terms))) if terms else ())
    made = TrustReport(
        version=dragoman.__version__,
        system=str(translated),
        languages=languages,
        machine=describe(),
        page=str(folder / PAGE),
        files=tuple(files),
        errors=count_errors(judge, lines, places),
    )
    return write_report(made)


def _document_texts(
    source: Path, translated: Path, languages: tuple[str, str], left_out: Counter[str], is_named: bool
) -> Iterator[tuple[str, Translation]]:
    """Yield the places of a document's texts, and the texts with their translations. Another file has none, unless it
    is named alone: then its lines are texts. Count the texts that are left out.
    """
    kind = format_to_translate(source)
    if kind is None and not is_named:
        return
    if not translated.is_file():
        raise DataError(f"{translated} does not exist")
    if kind is None:
        sides = [[*read_lines(path)] for path in (source, translated)]
        _check_counts(source, translated, *map(len, sides))
        yield from ((f"line {n:,}", Translation(*pair)) for n, pair in enumerate(zip(*sides, strict=True), 1))
        return
    if kind.name in ("po", "xliff"):  # the translation holds its sources
        reading = open_pairs(str(translated))
        for pair in reading:
            if pair.fault:
                left_out[pair.fault] += 1
            else:
                yield pair.origin, Translation(*pair[:2])
        left_out.update(reading.repairs)
        return
    document = read_document(source, languages, kind.document)
    made = read_document(translated, (languages[1], languages[0]), kind.document)  # as a text in its own language
    _check_counts(source, translated, len(document.texts), len(made.texts))
    for number, pair in enumerate(zip(document.texts, made.texts, strict=True)):
        yield document.place(number), Translation(*pair)


def _check_counts(source: Path, translated: Path, count: int, translated_count: int) -> None:
    if count != translated_count:
        raise DataError(f"{source} has {count:,} texts but {translated} {translated_count:,}: they cannot be compared")
