"""What a search may not write: each rule is a small object that sets the log-probability of some tokens to -inf.

It leaves the others as they are, so that scores stay those of the model. Rules may be applied in any order. `history`
holds what each row has written, its last token in the last column: the start symbol, the tokens, and -1 before them.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class Rule(Protocol):
    def __call__(self, log_prob: Float[Tensor, "R V"], history: Int[Tensor, "R T"], rows: Int[Tensor, "Q"]) -> None:
        """Sets to -inf, in place, what these rows may not write next; other rows do not obey the rule."""
        ...


class Ban:
    """Forbids some tokens everywhere."""

    def __init__(self, tokens: Sequence[int], device: torch.device) -> None:
        self.tokens = torch.tensor(tokens, dtype=torch.int64, device=device)

    def __call__(self, log_prob: Float[Tensor, "R V"], history: Int[Tensor, "R T"], rows: Int[Tensor, "Q"]) -> None:
        log_prob[rows[:, None], self.tokens] = -torch.inf


class MinimumLength:
    """Forbids the end symbol before `length` tokens are written."""

    def __init__(self, length: int, end: int) -> None:
        self.length, self.end = length, end

    def __call__(self, log_prob: Float[Tensor, "R V"], history: Int[Tensor, "R T"], rows: Int[Tensor, "Q"]) -> None:
        log_prob[rows[written(history[rows]) < self.length], self.end] = -torch.inf


class NotBlank:
    """Forbids an empty output: before the first visible token there is no end symbol and at most one blank token, such
    as the space that some vocabularies set before a rare letter.
    """

    def __init__(self, blank: Sequence[int], end: int, vocabulary: int, device: torch.device) -> None:
        """`blank` are the invisible tokens of a vocabulary of this size, the end symbol aside."""
        self.blank = torch.tensor(blank, dtype=torch.int64, device=device)
        self.end = end
        self.is_blank = torch.zeros(vocabulary, dtype=torch.bool, device=device)
        self.is_blank[self.blank] = True

    def __call__(self, log_prob: Float[Tensor, "R V"], history: Int[Tensor, "R T"], rows: Int[Tensor, "Q"]) -> None:
        # One of the first two tokens is visible. Most rows have written two, and only the others cost anything.
        recent = history[:, -3:][rows]
        young = (written(recent) < 2).nonzero().flatten()
        if not len(young):
            return
        rows, recent = rows[young], recent[young]
        begun = written(recent) == 1
        unseen = ~begun | self.is_blank[recent[:, -1]]
        log_prob[rows[unseen], self.end] = -torch.inf
        log_prob[rows[unseen & begun][:, None], self.blank] = -torch.inf


class NoRepeatedNgram:
    """Forbids a run of `size` tokens that the row has written before (Paulus et al. 2018)."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, log_prob: Float[Tensor, "R V"], history: Int[Tensor, "R T"], rows: Int[Tensor, "Q"]) -> None:
        if history.size(1) < self.size:
            return
        own = history[rows]
        runs = own.unfold(1, self.size, 1)  # (Q, T) -> (Q, T - size + 1, size)
        now = own[:, own.size(1) - self.size + 1 :]
        last = runs[..., -1]
        row, place = ((runs[..., :-1] == now[:, None]).all(-1) & (last >= 0)).nonzero(as_tuple=True)
        log_prob[rows[row], last[row, place]] = -torch.inf


class ForcedPrefix:
    """Allows one token at a time until `prefix` is written."""

    def __init__(self, prefix: Sequence[int], device: torch.device) -> None:
        self.prefix = torch.tensor(prefix, dtype=torch.int64, device=device)

    def __call__(self, log_prob: Float[Tensor, "R V"], history: Int[Tensor, "R T"], rows: Int[Tensor, "Q"]) -> None:
        place = written(history[rows])
        rows, place = rows[place < len(self.prefix)], place[place < len(self.prefix)]
        token = self.prefix[place]
        kept = log_prob[rows, token]
        log_prob[rows] = -torch.inf
        log_prob[rows, token] = kept


def written(history: Int[Tensor, "R T"]) -> Int[Tensor, "R"]:
    """Tokens that each row has written, the start symbol not counted."""
    return (history >= 0).sum(1) - 1
