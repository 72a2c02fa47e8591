"""Many texts in several passes, so that memory does not grow with their number."""

from collections.abc import Iterator, Sequence

from dragoman.aligning.passes import Given

ROWS = 1_024
"""Tokens of a pass. With gradients, a model of size base holds some 0.5 MB for each; more is hardly faster."""


def portions(texts: Sequence[Given], rows: int = ROWS) -> Iterator[list[Given]]:
    """The texts in order, in portions of at most so many tokens; a longer text is a portion of its own.

    >>> [len(portion) for portion in portions([Given([1, 2], [3], [4])] * 5, rows=6)]
    [2, 2, 1]
    """
    portion: list[Given] = []
    held = 0
    for text in texts:
        size = len(text.source or []) + len(text.target)
        if portion and held + size > rows:
            yield portion
            portion, held = [], 0
        portion.append(text)
        held += size
    if portion:
        yield portion
