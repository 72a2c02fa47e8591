"""Texts in chunks that are worked on together, so that memory holds one chunk, however many texts there are."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

LINES = 1000
CHARACTERS = 1_000_000

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
