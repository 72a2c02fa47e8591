"""What a search needs of any model, and the steppers of the families. A search never sees a model itself."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model import Cache, EncoderDecoder, LanguageModel, Packing
from dragoman.model.observer import Observer


class Step(NamedTuple):
    """What may come next in each row. The search may write into it."""

    log_prob: Float[Tensor, "R V"]


@runtime_checkable
class Stepper(Protocol):
    """R rows under way, each one hypothesis of one source. The source of a language model is the beginning of its text.

    It returns log-probabilities rather than logits, so that an ensemble can average them.
    """

    @property
    def device(self) -> torch.device: ...

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Adds one new row for each source, after the rows under way."""
        ...

    def advance(self, token: Int[Tensor, "R n"]) -> Step:
        """Takes in each row's next n tokens, the start symbol first; returns what may follow the last of them."""
        ...

    def select(self, row: Int[Tensor, "R2"]) -> None:
        """Keeps these rows, in this order; a row may be named twice or not at all."""
        ...


class ModelStepper:
    """Steps an encoder-decoder through its cache. Log-probabilities are float32, whatever the weights are.

    The observer is shown what the model computes for all rows under way.
    """

    def __init__(self, model: EncoderDecoder, observer: Observer | None = None) -> None:
        self.model, self.observer = model, observer
        self.cache: Cache | None = None

    @property
    def device(self) -> torch.device:
        return self.model.output.device

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        packing = Packing.of([len(source) for source in sources], self.device)
        source = torch.tensor(list(chain.from_iterable(sources)), device=self.device)
        memory = self.model.encode(source, packing, observer=self.observer)
        fresh = self.model.start(memory, packing)
        if self.cache is None or not self.cache.rows:
            self.cache = fresh
        else:
            self.cache.join(fresh)

    def advance(self, token: Int[Tensor, "R n"]) -> Step:
        assert self.cache is not None, "a row is admitted before it advances"
        packing = Packing.even(token.size(0), token.size(1), self.device)
        hidden = self.model.decode(token.flatten(), packing, self.cache, observer=self.observer)
        last = hidden.unflatten(0, token.shape)[:, -1]  # (R * n, D) -> (R, D)
        return Step(self.model.project(last).float().log_softmax(-1))

    def select(self, row: Int[Tensor, "R2"]) -> None:
        assert self.cache is not None, "a row is admitted before it is selected"
        self.cache.reorder(row)


class TextStepper:
    """Steps a language model through its cache. A source is the beginning of a text, without its last token, which is
    the first that the row is fed.

    A row sees at most `context` tokens, as many as the model was trained on. When it has seen so many, the newer half
    of them is read again as if a text began there, and the row goes on after it. So what follows a token depends on its
    own row alone. None: a row sees all of its text.
    """

    def __init__(self, model: LanguageModel, context: int | None = None, observer: Observer | None = None) -> None:
        self.model, self.context, self.observer = model, context, observer
        self.cache = model.start(rows=0)
        self._seen: list[list[int]] = []
        """The tokens in each row of the cache."""

    @property
    def device(self) -> torch.device:
        return self.model.output.device

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        most = None if self.context is None else self.context - 1
        seen = [_last(source, most) for source in sources]
        self.cache.join(self._read(seen))
        self._seen += seen

    def advance(self, token: Int[Tensor, "R n"]) -> Step:
        self._make_room(token.size(1))
        packing = Packing.even(token.size(0), token.size(1), self.device)
        hidden = self.model.decode(token.flatten(), packing, self.cache, observer=self.observer)
        for seen, new in zip(self._seen, token.tolist(), strict=True):
            seen += new
        last = hidden.unflatten(0, token.shape)[:, -1]  # (R * n, D) -> (R, D)
        return Step(self.model.project(last).float().log_softmax(-1))

    def select(self, row: Int[Tensor, "R2"]) -> None:
        self.cache.reorder(row)
        self._seen = [list(self._seen[number]) for number in row.tolist()]

    def _make_room(self, count: int) -> None:
        """Lets the rows that cannot take in so many more tokens begin anew with the newer half of their context."""
        if self.context is None:
            return
        assert count <= self.context, "a row is fed no more than its context"
        full = [row for row, seen in enumerate(self._seen) if len(seen) + count > self.context]
        if not full:
            return
        for row in full:
            self._seen[row] = _last(self._seen[row], min(self.context // 2, self.context - count))
        order = [row for row in range(len(self._seen)) if row not in full] + full
        self.cache.reorder(torch.tensor(order[: -len(full)], dtype=torch.int64, device=self.device))
        self.cache.join(self._read([self._seen[row] for row in full]))
        self.cache.reorder(torch.tensor(order, device=self.device).argsort())

    def _read(self, rows: Sequence[Sequence[int]]) -> Cache:
        """A cache that holds these tokens."""
        cache = self.model.start(len(rows))
        packing = Packing.of([len(row) for row in rows], self.device)
        if packing.tokens:
            tokens = torch.tensor(list(chain.from_iterable(rows)), device=self.device)
            self.model.decode(tokens, packing, cache, observer=self.observer)
        return cache


def _last(tokens: Sequence[int], count: int | None) -> list[int]:
    """The last `count` of some tokens; None: all."""
    return list(tokens if count is None else tokens[max(0, len(tokens) - count) :])
