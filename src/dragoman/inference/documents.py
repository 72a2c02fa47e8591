"""Many lines, and whole documents, through a translator.

    summary = translate_document("runs/en-it", "page.html", "page.it.html")
    summary.counts["flagged"], summary.remarks

Both are translated in constant memory, and what goes into a file can be resumed after the process was stopped.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.errors import ConfigError
from dragoman.files import check_output, sha256
from dragoman.formats.lines import stored_in
from dragoman.inference.options import SearchOptions
from dragoman.inference.resumable import identity, resumable_file
from dragoman.inference.translation import HARMLESS, MEANINGS, Translation
from dragoman.inference.translator import Translator
from dragoman.progress import Progress, as_progress

if TYPE_CHECKING:
    from dragoman.formats.document import Document
    from dragoman.formats.reading import DocumentSettings
    from dragoman.formats.review import ReviewRow, ReviewTable
    from dragoman.surface.segment import Flag

logger = logging.getLogger(__name__)

LINES = 1000
CHARACTERS = 1_000_000
"""Maximum number of lines and characters in a chunk that is translated together."""
EMPTY_LINES = 200_000
"""Maximum number of lines in a chunk of empty lines."""
REMEMBERED = 200_000
"""Maximum number of texts whose translations are remembered."""
PLACES = 10
"""Number of places that are kept for each flag."""

T = TypeVar("T")


class Arriving(Iterator[T]):
    """Texts from a sender who may wait for the result of the first before sending the next."""

    def __init__(self, texts: Iterator[T], has_come: Callable[[], bool]) -> None:
        """Wrap texts; `has_come` returns True if the next text, or the end, has arrived."""
        self._texts, self.has_come = texts, has_come

    def __next__(self) -> T:
        return next(self._texts)


def chunks(
    texts: Iterable[T], length: Callable[[T], int], lines: int | None = None, empty_lines: int = 0
) -> Iterator[list[T]]:
    """Group texts whose lengths are in characters.

    A chunk ends with `lines` texts, by default `LINES`, or with the text that brings it to `CHARACTERS`, so the chunks
    after the end of one are the same whatever came before it. A chunk of empty texts may have more, up to
    `empty_lines`. `Arriving` texts also end a chunk while none is waiting.
    """
    arriving = texts if isinstance(texts, Arriving) else None
    chunk: list[T] = []
    characters = 0
    most = lines or LINES
    for text in texts:
        added = length(text)
        if added and len(chunk) >= most:  # of empty texts
            yield chunk
            chunk = []
        chunk.append(text)
        characters += added
        is_full = len(chunk) >= (most if characters else max(most, empty_lines)) or characters >= CHARACTERS
        if is_full or (arriving and not arriving.has_come()):
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


@dataclass
class Summary:
    """Counts of flags over many texts.

    Attributes:
        texts: number of texts so far.
        counts: number of texts with each flag; `translated` counts those that the model translated, `flagged` those
            with a flag that is not harmless, `left` those of the document that were not translated.
        places: numbers, from 1, of the first `PLACES` texts with each flag.
        unit: the name of one text: `line`, or `text` of a document.
        total: number of texts of the document, with those that were left.
        names: the position in the document of each text, such as "line 12".
        remarks: sentences about the document: why texts were left, and what a reader of the translation should know.
    """

    texts: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    places: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    unit: str = "line"
    total: int = 0
    names: Sequence[str] = field(default=(), repr=False)
    remarks: Sequence[str] = ()

    def add(self, translation: Translation) -> None:
        """Count the flags of the next text, those of its alternatives included."""
        self.texts += 1
        flags: set[str] = {flag for ranked in (translation, *translation.alternatives) for flag in ranked.flags}
        if flags - HARMLESS:
            flags.add("flagged")
        if translation.tokens:
            self.counts["translated"] += 1
        self.counts.update(flags)
        for flag in flags:
            if len(places := self.places.setdefault(flag, [])) < PLACES:
                places.append(self.texts)


class Memory:
    """Translations that were made by one model with the same options, so that equal texts are translated once."""

    def __init__(self, translator: Translator) -> None:
        """Begin without translations."""
        self._translator = translator
        self._known: dict[str, Translation] = {}

    def translate(self, texts: Sequence[str], options: SearchOptions | None, progress: Progress) -> list[Translation]:
        """Return the translations of texts, as `Translator.translate` does; of those known, without details."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        translations = self._translator.translate(new, options, progress) if new else ()
        made = dict(zip(new, translations, strict=True))
        if len(self._known) < REMEMBERED:
            self._known |= {text: _brief(translation) for text, translation in made.items()}
        return [made.get(text) or self._known[text] for text in texts]


def _brief(translation: Translation) -> Translation:
    """Return the part of a translation that a `Summary` counts, which takes little memory."""
    return Translation(translation.source, translation.text, tokens=translation.tokens[:1], flags=translation.flags)


def translate_lines(
    translator: Translator | Memory,
    lines: Iterable[str],
    options: SearchOptions | None = None,
    progress: Progress | bool = True,
    *,
    summary: Summary | None = None,
    total: int | None = None,
    at_once: int | None = None,
    reviewed: Mapping[int, Translation] | None = None,
) -> Iterator[list[Translation]]:
    """Translate any number of lines, in constant memory, and yield the translations of one chunk after another.

    A chunk has at most `at_once` lines, by default `LINES`, or `EMPTY_LINES` if all are empty. Flags are counted in
    `summary`, which may begin with lines that are done already. `total` is the number of lines for the progress bar, if
    it is known; a second bar counts the sentences of a chunk. Translations that a person has `reviewed` are used,
    by the number of the line from 0.

    Raises:
        DecodeError, OutOfMemory: as in `Translator.translate`.
    """
    summary, progress, reviewed = summary or Summary(), as_progress(progress), reviewed or {}
    with progress.track("translate", total, f"{summary.unit}s") as advance:
        if summary.texts:
            advance(summary.texts)
        for chunk in chunks(lines, len, at_once, 0 if at_once else EMPTY_LINES):
            here = {at: reviewed[summary.texts + at] for at in range(len(chunk)) if summary.texts + at in reviewed}
            new = [text for at, text in enumerate(chunk) if at not in here]
            distinct = new if any(new) else new[:1]  # the translations of empty lines are equal
            made = cycle(translator.translate(distinct, options, progress) if distinct else ())
            translations = [here.get(at) or next(made) for at in range(len(chunk))]
            for translation in translations:
                summary.add(translation)
            yield translations
            advance(len(chunk))


def translate_file(
    translator: Translator,
    source: Path,
    lines: Iterable[str],
    output: Path,
    options: SearchOptions | None = None,
    progress: Progress | bool = True,
    *,
    write: Callable[[int, Translation], Iterable[str]] = lambda _number, translation: [translation.text],
    convert: Callable[[Sequence[str]], bytes] | None = None,
    unit: str = "line",
    fresh: bool = False,
    total: int | None = None,
    memory: Memory | None = None,
    reviewed: Mapping[int, Translation] | None = None,
    **facts: Any,
) -> Summary:
    """Translate the lines of a file, or the texts of a document, into another file.

    If it is stopped, the same call resumes it. `write(number, translation)` returns the output lines of a text; numbers
    begin at 1. `convert` returns the content of the file for all of these lines. `facts` are everything else on which
    the output depends. With `fresh`, the results of a stopped call are discarded. `reviewed` is as in
    `translate_lines`; a `memory` holds further translations.

    Raises:
        DataError: the source has changed since a stopped call, or that call was asked for something else.
        DecodeError, DiskFull, FolderInUse, OutOfMemory: as in `Translator.translate` and `resumable_file`.
    """
    options = options or translator.options
    place = {"device": translator.device, "precision": translator.precision}
    asked = identity(translator.folders, None, options, **place, **facts)
    with resumable_file(output, asked, fresh, convert) as file:
        summary = Summary(file.record.lines, file.counts, file.places, unit)
        rest = file.rest(lines, str(source))
        for translations in translate_lines(
            memory or translator, rest, options, progress, summary=summary, total=total, reviewed=reviewed
        ):
            first = summary.texts - len(translations) + 1
            made = (line for numbered in enumerate(translations, first) for line in write(*numbered))
            file.add([translation.source for translation in translations], "".join(f"{line}\n" for line in made))
    return summary


class DocumentTranslator:
    """Translates documents with one model and the same options; equal texts of all of them are translated once."""

    def __init__(
        self,
        translator: Translator,
        options: SearchOptions,
        document_settings: "DocumentSettings | None" = None,
        review: "ReviewTable | None" = None,
        progress: Progress | bool = True,
    ) -> None:
        """Raise `ConfigError` for options that do not suit a document."""
        if options.raw or options.align or options.n_best > 1:
            raise ConfigError("a document takes no decode.raw, align or n_best")
        from dragoman.formats.reading import DocumentSettings  # here: lines are translated without it

        self.translator, self.options, self.review = translator.directed(options), options, review
        self.settings, self._progress = document_settings or DocumentSettings(), progress
        self._memory = Memory(self.translator)

    def translate(
        self,
        source: Path,
        output: Path,
        document_format: str | None = None,
        only: Sequence[str] = (),
        name: str | None = None,
        into: bool = False,
        fresh: bool = False,
    ) -> Summary:
        """Translate a document; `name` is its name in the table for review. See `translate_document`."""
        from dragoman.formats.review import ReviewRow

        name = name or source.as_posix()
        document, facts = self._read(source, output, document_format, only, into)
        texts, rows = document.texts, self.review.known(name, document) if self.review else {}
        names = [*map(document.place, range(len(texts)))]  # before some texts are left
        if rows:
            document.notes.append(f"texts translated as in the table for review: {len(rows):,}")
        corrections = json.dumps([[number, row.translation, row.flags] for number, row in rows.items()])
        facts += [hashlib.sha256(corrections.encode()).hexdigest(), self.settings.needs_review]
        results: list[tuple[str, str]] = []

        def convert(lines: Sequence[str]) -> bytes:
            results[:] = ((text, flags) for text, _, flags in (line.rpartition("\t") for line in lines))
            return document.translated([text for text, _ in results])

        summary = translate_file(
            self.translator,
            source,
            texts,
            output,
            self.options,
            self._progress,
            write=lambda _number, translation: [f"{translation.text}\t{','.join(translation.flags)}"],
            convert=convert,
            unit="text",
            fresh=fresh,
            total=len(texts),
            memory=self._memory,
            reviewed={number: _reviewed(row) for number, row in rows.items()},
            document=facts,
        )
        summary.counts["left"] = len(document.left)
        summary.total, summary.names, summary.remarks = (
            len(document.texts) + len(document.left),
            names,
            document.remarks,
        )
        if self.review is not None:
            made = enumerate(zip(names, texts, results, strict=True))
            self.review.set(
                name,
                (
                    ReviewRow(name, place, text, *result, rows[number].others if number in rows else ())
                    for number, (place, text, result) in made
                ),
            )
        return summary

    def _read(
        self, source: Path, output: Path, document_format: str | None, only: Sequence[str], into: bool
    ) -> "tuple[Document, list[Any]]":
        """Read a document, and the earlier translation of it; return it with the facts on which its texts depend."""
        from dragoman.formats.reading import format_of, read_document

        languages = self.translator.languages
        document = read_document(source, languages, document_format, only, self.settings)
        facts: list[Any] = [document_format or source.suffix, only, sha256(stored_in(source))]
        if into:
            count = len(document.texts)
            kind = document_format or format_of(source)
            document.keep(read_document(output, languages, kind, (), self.settings).inner)
            document.notes.append(f"texts that keep their earlier translation: {count - len(document.texts):,}")
            facts.append(sha256(output))
        return document, facts


def _reviewed(row: "ReviewRow") -> Translation:
    """Return the translation of a row of a table for review."""
    flags: tuple[Flag, ...] = tuple(flag for flag in MEANINGS if flag in row.flags.split(","))
    return Translation(row.source, row.translation, tokens=(row.translation,), flags=flags)


def translate_document(
    model: Path | str | Translator,
    source: Path | str,
    output: Path | str,
    options: SearchOptions | None = None,
    document_format: str | None = None,
    only: Sequence[str] = (),
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    progress: Progress | bool = True,
    *,
    document_settings: "DocumentSettings | None" = None,
    into: bool = False,
    review: Path | str | None = None,
    fresh: bool = False,
    **settings: Any,
) -> Summary:
    """Translate the texts of a document and write the document with their translations; all else in it is unchanged.

    The suffix of the file determines its format, unless `document_format` does. `only` names the columns of a table, or
    the keys of JSON, to translate, with patterns such as `*.title`. If it is stopped, the same call resumes it, unless
    `fresh`. Texts that are left untranslated are logged as warnings. `settings` are as in `translate`.

    With `into`, the output is an earlier translation, whose texts are kept by their names; only new ones are
    translated. `review` is a table (XLSX) for a person to correct: if it exists, the translations in it are used, and
    then it is written with all of them.

    Raises:
        CheckpointError, ConfigError, DecodeError, OutOfMemory: as in `translate`.
        ConfigError: the format is unknown, takes no `only` or has no names for `into`, or the options do not suit a
            document.
        DataError: the document or the table cannot be read or is over a limit, the output would overwrite the document,
            or a stopped call translated another one.
    """
    source, output = Path(source), Path(output)
    check_output(output, source)
    translator = model
    if not isinstance(translator, Translator):
        translator = Translator.load(translator, device, precision, progress, threads=threads)
    options = (options or translator.options).but(**settings)
    target = translator.directed(options).languages.target
    table = None if review is None else review_table(Path(review), target, source, output)
    job = DocumentTranslator(translator, options, document_settings, table, progress)
    summary = job.translate(source, output, document_format, only, into=into, fresh=fresh)
    if table is not None:
        table.write()
    for remark in summary.remarks:
        logger.warning("%s: %s", source, remark)
    return summary


def review_table(path: Path, target: str, *documents: Path) -> "ReviewTable":
    """Read or begin a table for review of translations into a language; it must be none of these documents."""
    from dragoman.formats.review import ReviewTable

    check_output(path, *documents)
    return ReviewTable(path, target)
