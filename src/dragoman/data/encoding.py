"""Encoding of text into the folder of a corpus: pairs, running text, labelled text, or lines for masked words.

All four functions raise a `DataError` if the folder exists, or if the text has no token.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from dragoman.data.aligning import link
from dragoman.data.corpus import FORMAT, LINK, LINKS, OFFSET, EncodedCorpus, Facts, Ids, Pool, Side
from dragoman.errors import DataError
from dragoman.files import new_folder, sha256, write_file
from dragoman.progress import Progress, silent
from dragoman.serialization import write_json
from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.pretokenizing import SPACE_BETWEEN_WORDS, cut_running
from dragoman.tokenizing.special_tokens import SYNTHETIC
from dragoman.tokenizing.tokenizer import Tokenizer, encode_words
from dragoman.tokenizing.tokenizers import Tokenizers

_CHUNK, _CHARACTERS = 5_000, 2_000_000
"""Maximum texts and characters to encode at a time; encoding takes about forty bytes of memory per character."""
_LONG = 100_000
"""Number of characters from which a line is cut at a space before encoding."""
T = TypeVar("T")
IdRows = Sequence[Sequence[int]] | NDArray[np.integer]


def encode_corpus(
    pairs: Iterable[tuple[str, str]],
    tokenizers: Tokenizers,
    folder: Path | str,
    progress: Progress = silent,
    pools: Sequence[Pool] = (),
    linked: bool = False,
    marked: range = range(0),
) -> EncodedCorpus:
    """Encode sentence pairs into a new folder, on all cores, with a few thousand pairs in memory at a time.

    The last pairs may be `pools`, from which every epoch draws different pairs. With `linked`, the pairs are also
    aligned. Sources of the `marked` pairs, which are synthetic, begin with `SYNTHETIC`.
    """

    def encoded() -> Iterator[dict[str, IdRows]]:
        first = 0
        for chunk in _chunks(pairs, lambda pair: len(pair[0]) + len(pair[1]), progress, "pairs"):
            sources = tokenizers.source.encode_batch([source for source, _ in chunk])
            if marked:
                sources = [[SYNTHETIC, *ids] if row in marked else ids for row, ids in enumerate(sources, first)]
            yield {
                "source": sources,
                "target": tokenizers.target.encode_batch([target for _, target in chunk]),
            }
            first += len(chunk)

    vocabularies = {"source": tokenizers.source, "target": tokenizers.target}
    return _write(folder, vocabularies, encoded(), pools=pools, link_with=progress if linked else None)


def encode_text(text: str | Iterable[str], tokenizer: Tokenizer, folder: Path | str, length: int) -> EncodedCorpus:
    """Encode running text for a language model into a new folder, as windows in which `length` ids are predicted. The
    text may be an iterable of parts, of which one is in memory at a time.

    The last id of a window is the first of the next, so every id except the first is predicted once.
    """
    windows = _windows(tokenizer.encode_running(text), length, np.dtype(_dtype(tokenizer)))
    encoded = ({"target": rows} for rows in windows)
    return _write(folder, {"target": tokenizer}, encoded, windows=True)


def encode_labelled(
    examples: Iterable[tuple[Sequence[str], Sequence[str]]],
    tokenizer: Tokenizer,
    labels: Labels,
    folder: Path | str,
    progress: Progress = silent,
) -> EncodedCorpus:
    """Encode labelled text into a new folder. An example is a pair of sequences of equal length: a text and its label,
    or words and their labels.

    The target of a text is the id of its label. The targets of words have one id per piece: 0 if it continues a word,
    else the id of the word's label, counted from 1.
    """
    labels_words = labels.task == "tag"

    def encoded() -> Iterator[dict[str, IdRows]]:
        for chunk in _chunks(examples, lambda example: sum(map(len, example[0])), progress, "texts"):
            pieces = encode_words([parts for parts, _ in chunk], tokenizer)
            ids = [[labels.id_of(name) for name in names] for _, names in chunk]
            yield {
                "source": [[*chain.from_iterable(row)] for row in pieces],
                "target": [_piece_targets(*row) for row in zip(pieces, ids, strict=True)] if labels_words else ids,
            }

    labelled = "words" if labels_words else "texts"
    return _write(folder, {"source": tokenizer, "target": labels}, encoded(), labelled=labelled)


def _piece_targets(pieces: Sequence[Sequence[int]], labels: Sequence[int]) -> list[int]:
    """Return the targets of the pieces of words.

    >>> _piece_targets([[7, 8], [9]], [4, 0])
    [5, 0, 1]
    """
    return [
        0 if index else label + 1 for word, label in zip(pieces, labels, strict=True) for index, _ in enumerate(word)
    ]


def encode_lines(
    lines: Iterable[str], tokenizer: Tokenizer, folder: Path | str, length: int, progress: Progress = silent
) -> EncodedCorpus:
    """Encode lines of text for masked words into a new folder. A line of more than `length` ids is cut into several
    rows; empty lines are left out.
    """
    pieces = chain.from_iterable(cut_running([line], _LONG, SPACE_BETWEEN_WORDS) for line in lines)

    def encoded() -> Iterator[dict[str, IdRows]]:
        for chunk in _chunks(pieces, len, progress, "lines"):
            rows = tokenizer.encode_batch(chunk)
            yield {"source": [row[first : first + length] for row in rows for first in range(0, len(row), length)]}

    return _write(folder, {"source": tokenizer}, encoded())


def _chunks(texts: Iterable[T], length: Callable[[T], int], progress: Progress, unit: str) -> Iterator[list[T]]:
    """Yield texts in lists of at most `_CHUNK`, or of about `_CHARACTERS` if they are long."""
    with progress.track("encode", unit=unit) as advance:
        chunk: list[T] = []
        characters = 0
        for text in texts:
            chunk.append(text)
            characters += length(text)
            if len(chunk) == _CHUNK or characters >= _CHARACTERS:
                yield chunk
                advance(len(chunk))
                chunk, characters = [], 0
        if chunk:
            yield chunk
            advance(len(chunk))


def _windows(pieces: Iterable[Sequence[int]], length: int, dtype: np.dtype) -> Iterator[Ids]:
    """Yield windows (rows, tokens) of the ids of a text, as pieces complete them; the last window may be shorter."""
    held, is_empty = np.empty(0, dtype), True
    for piece in pieces:
        held = np.concatenate([held, np.array(piece, dtype)])
        count = max(0, len(held) - 1) // length
        if count:
            yield np.lib.stride_tricks.sliding_window_view(held, length + 1)[: count * length : length]
            held, is_empty = held[count * length :], False
    if len(held) > 1:
        yield held[None]
    elif is_empty:
        raise DataError("there is nothing to encode: each token but the first is predicted, and the text has no second")


def _dtype(vocabulary: Tokenizer | Labels) -> Literal["<u2", "<i4"]:
    """Return the data type of its ids on disk."""
    return "<u2" if vocabulary.size <= 2**16 else "<i4"


def _write(
    folder: Path | str,
    vocabularies: Mapping[str, Tokenizer | Labels],
    encoded: Iterable[Mapping[str, IdRows]],
    windows: bool = False,
    labelled: Literal["texts", "words"] | None = None,
    pools: Sequence[Pool] = (),
    link_with: Progress | None = None,
) -> EncodedCorpus:
    """Write the folder of a corpus from parallel chunks of rows; with a progress, also align the pairs."""
    with new_folder(folder) as aside:
        with ExitStack() as stack:
            writers = {side: _SideWriter(aside, side, vocabulary, stack) for side, vocabulary in vocabularies.items()}
            for chunk in encoded:
                for side, rows in chunk.items():
                    writers[side].write(rows)
        source, target = (writers[side].facts() if side in writers else None for side in ("source", "target"))
        (count,) = {writer.rows for writer in writers.values()}
        pool = None if not pools else pools[0] if len(pools) == 1 else tuple(pools)
        facts = Facts(
            format=FORMAT, rows=count, windows=windows, labelled=labelled, source=source, pool=pool, target=target
        )
        if link_with is not None:
            corpus = EncodedCorpus(aside, facts)
            assert corpus.source is not None and source is not None and target is not None, "pairs are linked"
            sizes = source.vocabulary_size, target.vocabulary_size
            links = link(corpus.source, corpus.target, sizes, link_with)
            write_file(aside / LINKS, links.astype(LINK).tobytes())
            facts = facts.but(links_sha256=sha256(aside / LINKS))
        write_json(aside / "corpus.json", facts.model_dump(mode="json"))
    return EncodedCorpus.open(folder)


class _SideWriter:
    """A writer that appends rows of ids to the two files of one side, which a stack closes."""

    def __init__(self, folder: Path, side: str, vocabulary: Tokenizer | Labels, stack: ExitStack) -> None:
        self._side = side
        self._paths = folder / f"{side}.ids", folder / f"{side}.offsets"
        self._ids, self._offsets = (stack.enter_context(path.open("wb")) for path in self._paths)
        self._offsets.write(np.zeros(1, OFFSET).tobytes())
        self._vocabulary = vocabulary
        self._dtype: Literal["<u2", "<i4"] = _dtype(vocabulary)
        self.tokens = self.rows = 0

    def write(self, rows: IdRows) -> None:
        lengths = np.fromiter(map(len, rows), OFFSET, len(rows))
        if isinstance(rows, np.ndarray):
            ids = rows.ravel().astype(self._dtype)
        else:
            ids = np.fromiter(chain.from_iterable(rows), self._dtype, int(lengths.sum()))
        ends = self.tokens + np.cumsum(lengths)
        self._ids.write(ids.tobytes())
        self._offsets.write(ends.astype(OFFSET).tobytes())
        self.tokens += len(ids)
        self.rows += len(lengths)

    def facts(self) -> Side:
        if not self.tokens:
            raise DataError(f"there is nothing to encode: no {self._side} text has a single token")
        ids, offsets = map(sha256, self._paths)
        return Side(
            tokens=self.tokens,
            dtype=self._dtype,
            vocabulary_size=self._vocabulary.size,
            tokenizer=self._vocabulary.identity,
            ids_sha256=ids,
            offsets_sha256=offsets,
        )
