"""Many lines, and whole documents, through a translator.

    summary = translate_document("runs/en-it", "page.html", "page.it.html")
    summary.counts["flagged"], summary.remarks

Both are translated in constant memory, and what goes into a file can be resumed after the process was stopped.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.errors import ConfigError
from dragoman.files import check_output, sha256
from dragoman.formats.lines import stored_in
from dragoman.inference.options import SearchOptions
from dragoman.inference.resumable import identity, resumable_file
from dragoman.inference.translation import HARMLESS, Translation
from dragoman.inference.translator import Translator
from dragoman.progress import Progress, as_progress

if TYPE_CHECKING:
    from dragoman.formats.document import Document
    from dragoman.formats.reading import DocumentSettings

logger = logging.getLogger(__name__)

LINES = 1000
CHARACTERS = 1_000_000
"""Maximum number of lines and characters in a chunk that is translated together."""
EMPTY_LINES = 200_000
"""Maximum number of lines in a chunk of empty lines."""
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
        document: the document that contains the texts; None if they are lines.
    """

    texts: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    places: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    document: "Document | None" = field(default=None, repr=False)

    @property
    def unit(self) -> str:
        """The name of one text: `line`, or `text` of a document."""
        return "line" if self.document is None else "text"

    @property
    def remarks(self) -> list[str]:
        """Sentences about the document: why texts were left, and what a reader of the translation should know."""
        return [] if self.document is None else self.document.remarks

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


def translate_lines(
    translator: Translator,
    lines: Iterable[str],
    options: SearchOptions | None = None,
    progress: Progress | bool = True,
    *,
    summary: Summary | None = None,
    total: int | None = None,
    at_once: int | None = None,
) -> Iterator[list[Translation]]:
    """Translate any number of lines, in constant memory, and yield the translations of one chunk after another.

    A chunk has at most `at_once` lines, by default `LINES`, or `EMPTY_LINES` if all are empty. Flags are counted in
    `summary`, which may begin with lines that are done already. `total` is the number of lines for the progress bar, if
    it is known; a second bar counts the sentences of a chunk.

    Raises:
        DecodeError, OutOfMemory: as in `Translator.translate`.
    """
    summary, progress = summary or Summary(), as_progress(progress)
    with progress.track("translate", total, f"{summary.unit}s") as advance:
        if summary.texts:
            advance(summary.texts)
        for chunk in chunks(lines, len, at_once, 0 if at_once else EMPTY_LINES):
            distinct = chunk if any(chunk) else chunk[:1]  # the translations of empty lines are equal
            translations = translator.translate(distinct, options, progress) * (len(chunk) // len(distinct))
            for translation in translations:
                summary.add(translation)
            yield translations
            advance(len(chunk))


def translate_file(
    translator: Translator,
    source: Path,
    lines: "Iterable[str] | Document",
    output: Path,
    options: SearchOptions | None = None,
    progress: Progress | bool = True,
    *,
    write: Callable[[int, Translation], Iterable[str]] = lambda _number, translation: [translation.text],
    fresh: bool = False,
    total: int | None = None,
    **facts: Any,
) -> Summary:
    """Translate the lines of a file, or the texts of a document, into another file.

    If it is stopped, the same call resumes it. `write(number, translation)` returns the output lines of a text; numbers
    begin at 1. For a document it must return only the translated text. `facts` are everything else on which the output
    depends. With `fresh`, the results of a stopped call are discarded.

    Raises:
        DataError: the source has changed since a stopped call, or that call was asked for something else.
        DecodeError, DiskFull, FolderInUse, OutOfMemory: as in `Translator.translate` and `resumable_file`.
    """
    options = options or translator.options
    document, convert = None, None
    if not isinstance(lines, Iterable):
        document, convert, lines, total = lines, lines.translated, lines.texts, len(lines.texts)
    place = {"device": translator.device, "precision": translator.precision}
    asked = identity(translator.folders, None, options, **place, **facts)
    with resumable_file(output, asked, fresh, convert) as file:
        summary = Summary(file.record.lines, file.counts, file.places, document)
        rest = file.rest(lines, str(source))
        for translations in translate_lines(translator, rest, options, progress, summary=summary, total=total):
            first = summary.texts - len(translations) + 1
            made = (line for numbered in enumerate(translations, first) for line in write(*numbered))
            file.add([translation.source for translation in translations], "".join(f"{line}\n" for line in made))
    if document is not None:
        summary.counts["left"] = len(document.left)
    return summary


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
    fresh: bool = False,
    **settings: Any,
) -> Summary:
    """Translate the texts of a document and write the document with their translations; all else in it is unchanged.

    The suffix of the file determines its format, unless `document_format` does. `only` names the columns of a table, or
    the keys of JSON, to translate, with patterns such as `*.title`. If it is stopped, the same call resumes it, unless
    `fresh`. Texts that are left untranslated are logged as warnings. `settings` are as in `translate`.

    Raises:
        CheckpointError, ConfigError, DecodeError, OutOfMemory: as in `translate`.
        ConfigError: the format is unknown or takes no `only`, or the options do not suit a document.
        DataError: the document cannot be read or is over a limit, the output would overwrite it, or a stopped call
            translated another document.
    """
    from dragoman.formats.reading import read_document  # here, because lines are translated without it

    source, output = Path(source), Path(output)
    check_output(output, source)
    translator = model
    if not isinstance(translator, Translator):
        translator = Translator.load(translator, device, precision, progress, threads=threads)
    options = (options or translator.options).but(**settings)
    if options.raw or options.align or options.n_best > 1:
        raise ConfigError(f"{source} is a document, which takes no decode.raw, align or n_best")
    languages = translator.languages.source, options.target_language or translator.languages.target
    document = read_document(source, languages, document_format, only, document_settings)
    facts = {"as_json": False, "document": [document_format or source.suffix, only, sha256(stored_in(source))]}
    summary = translate_file(translator, source, document, output, options, progress, fresh=fresh, **facts)
    for remark in summary.remarks:
        logger.warning("%s: %s", source, remark)
    return summary
