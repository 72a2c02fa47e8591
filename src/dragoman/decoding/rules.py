"""What a search may not write: each rule is a small object that sets the log-probability of some tokens to -inf.

The others are left as they are, so that scores stay those of the model. Rows know what they wrote from `history`: the
tokens so far, the last in the last column, beginning with the start symbol, and -1 before that.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class Rule(Protocol):
    def __call__(self, log_prob: Float[Tensor, "R V"], history: Int[Tensor, "R T"], sentence: Int[Tensor, "R"]) -> None:
        """Sets to -inf, in place, what row r (of this sentence) may not write next."""
        ...


class Ban:
    """Tokens that are never written."""

    def __init__(self, tokens: Sequence[int], device: torch.device) -> None:
        self.tokens = torch.tensor(tokens, dtype=torch.int64, device=device)

    def __call__(self, log_prob: Float[Tensor, "R V"], history: Int[Tensor, "R T"], sentence: Int[Tensor, "R"]) -> None:
        log_prob.index_fill_(1, self.tokens, -torch.inf)


class MinimumLength:
    """No end before so many tokens."""

    def __init__(self, length: int, end: int) -> None:
        self.length, self.end = length, end

    def __call__(self, log_prob: Float[Tensor, "R V"], history: Int[Tensor, "R T"], sentence: Int[Tensor, "R"]) -> None:
        log_prob[:, self.end].masked_fill_(written(history) < self.length, -torch.inf)


class NotBlank:
    """These sentences are not translated by nothing: before the first token that can be seen there is no end, and one
    blank token at most, such as the space that some vocabularies set before a rare letter.
    """

    def __init__(
        self, sentences: Sequence[bool], blank: Sequence[int], end: int, vocabulary: int, device: torch.device
    ) -> None:
        """`blank` are the tokens that cannot be seen, the start symbol among them."""
        self.sentences = torch.tensor(sentences, device=device)
        self.blank = torch.tensor(blank, dtype=torch.int64, device=device)
        self.end = end
        self.unseen = torch.zeros(vocabulary + 1, dtype=torch.bool, device=device)
        self.unseen[self.blank] = True
        self.unseen[-1] = True  # what a history holds before its beginning

    def __call__(self, log_prob: Float[Tensor, "R V"], history: Int[Tensor, "R T"], sentence: Int[Tensor, "R"]) -> None:
        # Whoever wrote two tokens wrote one that can be seen. Most rows have, and only the others cost anything.
        young = (self.sentences[sentence] & (written(history[:, -3:]) < 2)).nonzero().flatten()
        if not len(young):
            return
        nothing = young[self.unseen[history[young, -2:]].all(1)]
        log_prob[nothing, self.end] = -torch.inf
        if history.size(1) > 1:
            begun = nothing[history[nothing, -2] >= 0]
            log_prob[begun[:, None], self.blank] = -torch.inf


class NoRepeatedNgram:
    """No run of `size` tokens twice in one row."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, log_prob: Float[Tensor, "R V"], history: Int[Tensor, "R T"], sentence: Int[Tensor, "R"]) -> None:
        if history.size(1) < self.size:
            return
        runs = history.unfold(1, self.size, 1)  # (R, T) -> (R, T - size + 1, size)
        now = history[:, history.size(1) - self.size + 1 :]
        last = runs[..., -1]
        seen = (runs[..., :-1] == now[:, None]).all(-1) & (last >= 0)
        taken = torch.zeros_like(seen, dtype=log_prob.dtype).masked_fill_(seen, -torch.inf)
        log_prob.scatter_add_(1, last.clamp(min=0), taken)


class ForcedPrefix:
    """Sentence s begins with `prefixes[s]`."""

    def __init__(self, prefixes: Sequence[Sequence[int]], device: torch.device) -> None:
        longest = max(map(len, prefixes), default=0) + 1
        self.forced = torch.tensor([[*p, *[-1] * (longest - len(p))] for p in prefixes], device=device)

    def __call__(self, log_prob: Float[Tensor, "R V"], history: Int[Tensor, "R T"], sentence: Int[Tensor, "R"]) -> None:
        place = written(history).clamp(max=self.forced.size(1) - 1)
        token = self.forced[sentence, place][:, None]
        kept = log_prob.gather(1, token.clamp(min=0))
        log_prob.masked_fill_(token >= 0, -torch.inf)
        log_prob.scatter_(1, token.clamp(min=0), kept)


def written(history: Int[Tensor, "R T"]) -> Int[Tensor, "R"]:
    """Tokens that each row has written, the start symbol not counted."""
    return (history >= 0).sum(1) - 1
