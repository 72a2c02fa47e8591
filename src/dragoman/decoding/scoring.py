"""The log-probability of given targets, each in one pass and without a search."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dragoman.decoding.steppers import ScoringStepper

Ids = Sequence[int]


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
        given = [[start, *label[:-1]] for label in labels]
        found = stepper().score([sources[i] for i in batch], given, labels)
        ends = np.cumsum([len(label) for label in labels])[:-1]
        for i, log_probs in zip(batch, np.split(found, ends), strict=True):
            results[i] = log_probs.tolist()

    together = batches(sources, targets, batch_tokens)
    if workers == 1:
        for batch in together:
            work(batch)
        return results
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, together):
            pass
    return results


def batches(sources: Sequence[Ids], targets: Sequence[Ids], batch_tokens: int) -> Iterator[list[int]]:
    """Numbers of pairs that the model is given together: alike in length, and so many that they fit."""
    batch: list[int] = []
    longest = 0
    for i in sorted(range(len(sources)), key=lambda i: (len(sources[i]), len(targets[i]))):
        longest = max(longest, len(sources[i]), len(targets[i]))
        if batch and (len(batch) + 1) * longest > batch_tokens:
            yield batch
            batch, longest = [], max(len(sources[i]), len(targets[i]))
        batch.append(i)
    if batch:
        yield batch
