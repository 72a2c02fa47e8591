"""Many lines, and whole documents, through a translator."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dragoman.files import check_output, write_file
from dragoman.formats.reading import read_document
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.progress import Progress

logger = logging.getLogger(__name__)

LINES = 1000
CHARACTERS = 1_000_000
"""Most lines and characters of a chunk that is translated together."""

T = TypeVar("T")


class Arriving(Iterator[T]):
    """Texts that somebody sends, who may wait for what is made of the first before the next is sent."""

    def __init__(self, texts: Iterator[T], has_come: Callable[[], bool]) -> None:
        """`has_come` says whether the next text, or the end, is there."""
        self._texts, self.has_come = texts, has_come

    def __next__(self) -> T:
        return next(self._texts)


def chunks(texts: Iterable[T], length: Callable[[T], int]) -> Iterator[list[T]]:
    """Groups texts of these lengths in characters. A chunk ends with `LINES` texts, or with the one that brings it to
    `CHARACTERS`. So chunks that begin at the end of one are the same whatever came before it. Of texts that are
    `Arriving`, it also ends where the next has not come.
    """
    arriving = texts if isinstance(texts, Arriving) else None
    chunk: list[T] = []
    characters = 0
    for text in texts:
        chunk.append(text)
        characters += length(text)
        if len(chunk) == LINES or characters >= CHARACTERS or (arriving and not arriving.has_come()):
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def translate_document(
    model: Path | str,
    source: Path | str,
    output: Path | str,
    options: SearchOptions | None = None,
    document_format: str | None = None,
    only: Sequence[str] = (),
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    progress: Progress | bool = True,
    **settings: Any,
) -> list[Translation]:
    """Translates the texts of a document, and writes the document with their translations; all else in it stays as it
    is. Returns the translations, in the order of the document. Texts that had to be left are logged as warnings.

    The name of the file tells its format, unless `document_format` does. `only` names the columns of a table, or the
    keys of JSON, that are translated, by patterns such as `*.title`. `settings` are as those of `translate`.

    Raises:
        CheckpointError, ConfigError, DecodeError, OutOfMemory: as `translate`.
        ConfigError: no format is known by the name, or it takes no `only`.
        DataError: the document cannot be read, or the output would overwrite it.
    """
    source, output = Path(source), Path(output)
    check_output(output, source)
    translator = Translator.load(model, device, precision, progress, threads=threads)
    document = read_document(source, translator.languages, document_format, only)
    translations = translator.translate(document.texts, options, progress, **settings)
    write_file(output, document.translated([each.text for each in translations]))
    for remark in document.remarks:
        logger.warning("%s: %s", source, remark)
    return translations
