"""Texts in chunks that are worked on together, so that memory holds one chunk, however many texts there are."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

LINES = 1000
CHARACTERS = 1_000_000

T = TypeVar("T")


def chunks(texts: Iterable[T], length: Callable[[T], int]) -> Iterator[list[T]]:
    """Groups texts of these lengths in characters. A chunk ends with `LINES` texts, or with the one that brings it to
    `CHARACTERS`. So chunks that begin at the end of one are the same whatever came before it.
    """
    chunk: list[T] = []
    characters = 0
    for text in texts:
        chunk.append(text)
        characters += length(text)
        if len(chunk) == LINES or characters >= CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
