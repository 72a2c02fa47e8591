"""What a search needs of any model, and the stepper of an encoder-decoder. A search never sees a model itself."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model import Cache, EncoderDecoder, Packing
from dragoman.model.observer import Observer


class Step(NamedTuple):
    """What may come next in each row. The search may write into it."""

    log_prob: Float[Tensor, "R V"]


@runtime_checkable
class Stepper(Protocol):
    """R rows under way, each one hypothesis of one source.

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
