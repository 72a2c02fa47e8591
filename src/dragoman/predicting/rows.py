"""From texts to the batches that an encoder alone takes, and from its logits back to texts, in order."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.data.batching import LabelledBatch
from dragoman.model import EncoderModel
from dragoman.tokenizing.special_tokens import Framing

BATCH_TOKENS = 4_096
"""Most tokens that are read at a time; one text always is."""


@dataclass(frozen=True)
class Row:
    """One text as ids, without symbols around it, and the places of the tokens that are predicted from; None if one
    prediction is made for the whole text.
    """

    ids: Sequence[int]
    places: Sequence[int] | None = None


def batched(rows: Iterable[Row], framing: Framing) -> Iterator[list[Row]]:
    """The rows that are read together, in order."""
    batch: list[Row] = []
    tokens = 0
    for row in rows:
        length = len(row.ids) + framing.source_symbols
        if batch and tokens + length > BATCH_TOKENS:
            yield batch
            batch, tokens = [], 0
        batch.append(row)
        tokens += length
    if batch:
        yield batch


def laid_out(rows: Sequence[Row], framing: Framing, device: torch.device | str) -> LabelledBatch:
    """These rows as a batch whose labels are not known."""
    framed = [framing.source(row.ids) for row in rows]
    lengths = torch.tensor([len(ids) for ids in framed])
    places = None
    if rows[0].places is not None:
        firsts = (lengths.cumsum(0) - lengths + len(framing.source_before)).tolist()
        found = [[first + place for place in row.places or ()] for first, row in zip(firsts, rows, strict=True)]
        places = torch.tensor([*chain.from_iterable(found)], dtype=torch.int64)
    source = torch.tensor([*chain.from_iterable(framed)])
    return LabelledBatch(source, lengths, places, torch.empty(0, dtype=torch.int64), torch.arange(len(rows))).to(device)


def logits_of(model: EncoderModel, rows: Sequence[Row], framing: Framing) -> list[np.ndarray]:
    """The logits of each row, in order; rows of similar length are read together."""
    order = sorted(range(len(rows)), key=lambda number: len(rows[number].ids))
    found = dict(zip(order, logits_in_turn(model, (rows[number] for number in order), framing), strict=True))
    return [found[number] for number in range(len(rows))]


def logits_in_turn(model: EncoderModel, rows: Iterable[Row], framing: Framing) -> Iterator[np.ndarray]:
    """The logits of each row: (C) for a text, (P, C) for P places in it; float32, on the host. Memory holds one batch
    of rows, which may be made as they are asked for.
    """
    for batch in batched(rows, framing):
        yield from _read(model, batch, framing)


@torch.inference_mode()
def _read(model: EncoderModel, rows: Sequence[Row], framing: Framing) -> list[np.ndarray]:
    logits = project(model, laid_out(rows, framing, model.output.device)).cpu().numpy()
    sizes = [1 if row.places is None else len(row.places) for row in rows]
    parts = np.split(logits, np.cumsum(sizes)[:-1])
    return [part[0] if row.places is None else part for row, part in zip(rows, parts, strict=True)]


def project(model: EncoderModel, batch: LabelledBatch) -> Float[Tensor, "M V"]:
    """The logits of everything that a batch predicts, in float32."""
    return model.project(model(*batch.inputs)).float()
