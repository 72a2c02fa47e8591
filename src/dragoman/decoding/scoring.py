"""The log-probability of given targets, each in one pass and without a search."""

from collections.abc import Sequence
from itertools import chain

import torch

from dragoman.model import EncoderDecoder, Packing

_ROWS = 512  # of logits at a time, to bound the memory of large vocabularies


@torch.inference_mode()
def score(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    start: int,
    batch_tokens: int = 4096,
) -> list[list[float]]:
    """The log-probability of each token of each target, given its source and the tokens before it.

    Sources hold the symbols around them, and targets their end symbol. The decoder is fed `start` before the first
    token.
    """
    results: list[list[float]] = [[] for _ in sources]
    order = sorted(range(len(sources)), key=lambda i: (len(sources[i]), len(targets[i])))
    batch: list[int] = []
    for i in order:
        if batch and (len(batch) + 1) * max(len(sources[i]), *(len(targets[j]) for j in (*batch, i))) > batch_tokens:
            _score_batch(model, sources, targets, start, batch, results)
            batch = []
        batch.append(i)
    if batch:
        _score_batch(model, sources, targets, start, batch, results)
    return results


def _score_batch(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    start: int,
    batch: Sequence[int],
    results: list[list[float]],
) -> None:
    device = model.output.device
    of_sources = Packing.of([len(sources[i]) for i in batch], device)
    of_targets = Packing.of([len(targets[i]) for i in batch], device)
    source = torch.tensor(list(chain.from_iterable(sources[i] for i in batch)), device=device)
    label = torch.tensor(list(chain.from_iterable(targets[i] for i in batch)), device=device)
    given = torch.tensor(list(chain.from_iterable((start, *targets[i][:-1]) for i in batch)), device=device)
    keys = model.cross_keys(model.encode(source, of_sources), of_sources)
    hidden = model.decode(given, of_targets, keys)
    log_probs = [
        model.project(rows).float().log_softmax(-1).gather(1, labels[:, None])[:, 0]
        for rows, labels in zip(hidden.split(_ROWS), label.split(_ROWS), strict=True)
    ]
    each = iter(torch.cat(log_probs).tolist())
    for i in batch:
        results[i] = [next(each) for _ in targets[i]]
