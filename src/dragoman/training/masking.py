"""Masked words (Devlin et al. 2018, section 3.1): the choice of the tokens that are hidden, and of their replacements.

15 % of the tokens of a text are chosen, at least one. Of those, 80 % become the mask, 10 % a random token, and 10 %
stay. Nothing random is stored: the choice is a hash of (seed, step) and the index of the token in the whole step, as
for dropout. So a run repeats and resumes, and each epoch masks other tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from dragoman.data.batching import Batches, BatchSize, Indices, LabelledBatch, framed, text_places
from dragoman.model.dropout import StepKey, random_bits
from dragoman.shapes import Int
from dragoman.tokenizing.special_tokens import MASK, SYMBOLS
from dragoman.training.loss import Loss
from dragoman.training.objective import BatchSource, CrossEntropy

SHARE, BECOME_MASK, BECOME_RANDOM = 0.15, 0.8, 0.1
"""Tokens that are predicted; of these, those that become the mask, and those that become a random token."""


class MaskedBatches:
    """Batches of plain texts whose labels are their own tokens; `mask` hides some of them."""

    def __init__(self, order: Batches) -> None:
        self.order, self.corpus, self.framing = order, order.corpus, order.framing

    @property
    def tokens(self) -> int:
        """Number of source tokens of an epoch, and about the number of labels that are predicted."""
        return round(self.order.tokens * (1 + SHARE))

    def epoch(self, number: int) -> Sequence[Indices]:
        """Return the rows of each batch of an epoch, in order."""
        return self.order.epoch(number)

    def size_of(self, rows: Indices) -> BatchSize:
        """Return the sizes of a masked batch."""
        size = self.order.size_of(rows)
        assert self.corpus.source is not None, "a corpus for an encoder has sources"
        lengths = torch.from_numpy(self.corpus.source.lengths(rows))
        return replace(size, target_tokens=int(masked_counts(lengths).sum()))

    def batch(self, rows: Indices) -> LabelledBatch:
        """Return the texts of these rows, concatenated and unmasked: each token of a text is its own label."""
        ids, lengths = framed(self.corpus, rows, self.framing)
        places = text_places(lengths, self.framing)
        return LabelledBatch(*map(torch.from_numpy, (ids, lengths, places, ids[places], rows)))


@dataclass(frozen=True)
class MaskedTokens:
    """The objective of predicting masked tokens by a `cross_entropy`; other tokens are masked at every step."""

    cross_entropy: CrossEntropy
    vocabulary: int

    @property
    def batches(self) -> BatchSource:
        """Batches to train on, unmasked."""
        return self.cross_entropy.batches

    def loss(self, model: nn.Module, batch: LabelledBatch, dropout_key: StepKey) -> Loss:
        """Return sums over one micro-batch's masked tokens, which are chosen on the host so that no GPU must wait."""
        return self.cross_entropy.loss(model, mask(batch, dropout_key, self.vocabulary), dropout_key)


def masked_counts(lengths: Int[Tensor, "B"]) -> Int[Tensor, "B"]:
    """Return the number of tokens that are predicted in texts of these lengths. Texts without a token have none."""
    return torch.minimum((SHARE * lengths).round().long().clamp(min=1), lengths)


def mask(batch: LabelledBatch, dropout_key: StepKey, vocabulary: int) -> LabelledBatch:
    """Hide some tokens of a batch of `MaskedBatches`, and keep only those as labels."""
    assert batch.chosen is not None, "made by MaskedBatches"
    token_keys = dropout_key.source(len(batch.source), batch.source.device)
    texts = torch.repeat_interleave(torch.arange(len(batch.source_lengths)), batch.source_lengths)[batch.chosen]
    picked = _lowest(random_bits("mask.choose", token_keys)[batch.chosen], texts, len(batch.source_lengths))
    chosen, labels = batch.chosen[picked], batch.labels[picked]
    how, what = random_bits("mask.how", token_keys)[chosen], random_bits("mask.what", token_keys)[chosen]
    random = SYMBOLS + (what * (vocabulary - SYMBOLS) >> 32)
    masked, changed = (int(share * 2**32) for share in (BECOME_MASK, BECOME_MASK + BECOME_RANDOM))
    hidden = torch.where(how < masked, MASK, torch.where(how < changed, random, labels))
    return replace(batch, source=batch.source.index_copy(0, chosen, hidden), chosen=chosen, labels=labels)


def _lowest(draw: Int[Tensor, "M"], text: Int[Tensor, "M"], texts: int) -> Int[Tensor, "K"]:
    """Return the places of the lowest draws of each text, `masked_counts` of them, in order."""
    by_draw = draw.argsort(stable=True)
    order = by_draw[text[by_draw].argsort(stable=True)]  # by text, then by draw
    sizes = torch.bincount(text, minlength=texts)
    rank = torch.arange(len(order), device=draw.device) - torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)
    return order[rank < torch.repeat_interleave(masked_counts(sizes), sizes)].sort().values
