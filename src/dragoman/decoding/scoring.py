"""Log-probabilities of given targets, computed in one pass without a search, and batching by tokens."""

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
    """Return the log-probability of each token of each target, given its source and the tokens before it.

    Sources include their special symbols, and targets their end symbol. `start` is the first input of the decoder.
    Batches are distributed over `workers` threads, and every batch is scored by a new `stepper`.
    """
    results: list[list[float]] = [[] for _ in sources]

    def work(batch: Sequence[int]) -> None:
        labels = [targets[i] for i in batch]
        inputs = [[start, *label[:-1]] for label in labels]
        log_probs = stepper().score([sources[i] for i in batch], inputs, labels)
        ends = np.cumsum([len(label) for label in labels])[:-1]
        for i, target_log_probs in zip(batch, np.split(log_probs, ends), strict=True):
            results[i] = target_log_probs.tolist()

    batches = similar_batches(sources, targets, batch_tokens)
    if workers == 1:
        for batch in batches:
            work(batch)
        return results
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, batches):
            pass
    return results


def similar_batches(sources: Sequence[Ids], targets: Sequence[Ids], batch_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of pairs of similar length, in batches of at most `batch_tokens` padded tokens per side."""
    lengths = [(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    return batch_by_tokens(order, lambda i: max(lengths[i]), batch_tokens, padded=True)


def batch_by_tokens(
    items: Iterable[Item], length: Callable[[Item], int], tokens: int, *, padded: bool = False
) -> Iterator[list[Item]]:
    """Yield the items in order, in batches of at most `tokens` tokens; a longer item is a batch alone.

    `padded` counts every item of a batch with the length of its longest.

    >>> [len(batch) for batch in batch_by_tokens(["ab", "c", "d", "ef"], len, 4)]
    [3, 1]
    >>> [len(batch) for batch in batch_by_tokens(["ab", "c", "d", "ef"], len, 4, padded=True)]
    [2, 2]
    """
    batch: list[Item] = []
    total = longest = 0
    for item in items:
        size = length(item)
        total, longest = total + size, max(longest, size)
        needed = (len(batch) + 1) * longest if padded else total
        if batch and needed > tokens:
            yield batch
            batch, total, longest = [], size, size
        batch.append(item)
    if batch:
        yield batch
