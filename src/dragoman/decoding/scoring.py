"""The log-probability of given targets, each in one pass and without a search; how many texts one pass takes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from dragoman.decoding.steppers import ScoringStepper

Ids = Sequence[int]
Item = TypeVar("Item")


def score(
    stepper: Callable[[], ScoringStepper],
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    start: int,
    batch_tokens: int = 4096,
    workers: int = 1,
) -> list[list[float]]:
    """The log-probability of each token of each target, given its source and the tokens before it.

    Sources hold the symbols around them, and targets their end symbol. The decoder is fed `start` before the first
    token. Batches are shared among `workers`, threads with a `stepper` of their own.
    """
    results: list[list[float]] = [[] for _ in sources]

    def work(batch: Sequence[int]) -> None:
        labels = [targets[i] for i in batch]
        read = [[start, *label[:-1]] for label in labels]
        log_probs = stepper().score([sources[i] for i in batch], read, labels)
        ends = np.cumsum([len(label) for label in labels])[:-1]
        for i, of_target in zip(batch, np.split(log_probs, ends), strict=True):
            results[i] = of_target.tolist()

    batches = alike(sources, targets, batch_tokens)
    if workers == 1:
        for batch in batches:
            work(batch)
        return results
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, batches):
            pass
    return results


def alike(sources: Sequence[Ids], targets: Sequence[Ids], batch_tokens: int) -> Iterator[list[int]]:
    """Numbers of pairs that the model is given together: alike in length, and so many that they fit."""
    lengths = [(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    return portions(order, lambda i: max(lengths[i]), batch_tokens, padded=True)


def portions(
    items: Iterable[Item], length: Callable[[Item], int], tokens: int, *, padded: bool = False
) -> Iterator[list[Item]]:
    """The items in order, in portions of at most so many tokens; a longer item is a portion of its own.

    `padded` counts every item of a portion as long as its longest.

    >>> [len(portion) for portion in portions(["ab", "c", "d", "ef"], len, 4)]
    [3, 1]
    >>> [len(portion) for portion in portions(["ab", "c", "d", "ef"], len, 4, padded=True)]
    [2, 2]
    """
    portion: list[Item] = []
    total = longest = 0
    for item in items:
        size = length(item)
        total, longest = total + size, max(longest, size)
        needed = (len(portion) + 1) * longest if padded else total
        if portion and needed > tokens:
            yield portion
            portion, total, longest = [], size, size
        portion.append(item)
    if portion:
        yield portion
