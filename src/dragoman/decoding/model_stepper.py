"""Models in PyTorch that step: they show everything to an observer, take any projection, and run on any device."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.step import Best
from dragoman.decoding.table import Table
from dragoman.model import Cache, EncoderDecoder, LanguageModel, Packing
from dragoman.model.observer import Observer


class TensorStep:
    """A `Step` whose log-probabilities (R, V) lie where the model does. It is written to."""

    def __init__(self, log_prob: Float[Tensor, "R V"]) -> None:
        self.log_prob = log_prob

    @torch.inference_mode()
    def forbid(self, rows: Int[np.ndarray, "..."], tokens: Int[np.ndarray, "..."]) -> None:
        self.log_prob[self._here(rows), self._here(tokens)] = -torch.inf

    @torch.inference_mode()
    def allow_only(self, rows: Int[np.ndarray, "Q"], tokens: Int[np.ndarray, "Q"]) -> None:
        where = self._here(rows), self._here(tokens)
        kept = self.log_prob[where]
        self.log_prob[where[0]] = -torch.inf
        self.log_prob[where] = kept

    @torch.inference_mode()
    def best(self, count: int) -> Best:
        value, token = best_tokens(self.log_prob, min(count, self.log_prob.size(1)))
        return Best(value.cpu().numpy(), token.cpu().numpy())

    def write_next(self, table: Table, limits: Int[np.ndarray, "B"], end: int) -> bool:
        return False

    def log_probs(self) -> Float[np.ndarray, "R V"]:
        return self.log_prob.cpu().numpy()

    def _here(self, numbers: Int[np.ndarray, "..."]) -> Int[Tensor, "..."]:
        return torch.from_numpy(numbers).to(self.log_prob.device)


def best_tokens(log_prob: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """The best `count` tokens of each row in order, the lower id first among equals; `topk` alone takes any of them."""
    if count == 1:
        return log_prob.max(dim=1, keepdim=True)  # the first of equals, as documented
    value, token = log_prob.topk(min(count + 1, log_prob.size(1)))
    # Reading a value back is free on a processor. On a GPU it would wait, and sorting is quick there.
    if log_prob.device.type == "cpu" and not (value[:, 1:] == value[:, :-1]).any():
        return value[:, :count], token[:, :count]
    value, token = value[:, :count], token[:, :count]
    edge = value[:, -1:]  # topk took any of those that equal the last
    id_ = torch.arange(log_prob.size(1), device=log_prob.device)
    lowest = torch.where(log_prob == edge, -id_, -log_prob.size(1)).topk(count).indices
    place = torch.arange(count, device=log_prob.device) - (value > edge).sum(1, keepdim=True)
    token = torch.where(value > edge, token, lowest.gather(1, place.clamp(min=0)))
    token, order = token.sort(dim=1)
    value, order = value.gather(1, order).sort(dim=1, descending=True, stable=True)
    return value, token.gather(1, order)


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

    @torch.inference_mode()
    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        packing = Packing.of([len(source) for source in sources], self.device)
        source = torch.tensor(list(chain.from_iterable(sources)), device=self.device)
        memory = self.model.encode(source, packing, observer=self.observer)
        fresh = self.model.start(memory, packing)
        if self.cache is None or not self.cache.rows:
            self.cache = fresh
        else:
            self.cache.join(fresh)

    @torch.inference_mode()
    def advance(self, token: Int[np.ndarray, "R"]) -> TensorStep:
        assert self.cache is not None, "a row is admitted before it advances"
        packing = Packing.even(len(token), 1, self.device)
        hidden = self.model.decode(torch.from_numpy(token).to(self.device), packing, self.cache, observer=self.observer)
        return TensorStep(self.model.project(hidden).float().log_softmax(-1))

    @torch.inference_mode()
    def select(self, row: Int[np.ndarray, "R2"]) -> None:
        assert self.cache is not None, "a row is admitted before it is selected"
        self.cache.reorder(torch.from_numpy(row).to(self.device))


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

    @torch.inference_mode()
    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        most = None if self.context is None else self.context - 1
        seen = [_last(source, most) for source in sources]
        self.cache.join(self._read(seen))
        self._seen += seen

    @torch.inference_mode()
    def advance(self, token: Int[np.ndarray, "R"]) -> TensorStep:
        self._make_room()
        packing = Packing.even(len(token), 1, self.device)
        hidden = self.model.decode(torch.from_numpy(token).to(self.device), packing, self.cache, observer=self.observer)
        for seen, new in zip(self._seen, token.tolist(), strict=True):
            seen.append(new)
        return TensorStep(self.model.project(hidden).float().log_softmax(-1))

    @torch.inference_mode()
    def select(self, row: Int[np.ndarray, "R2"]) -> None:
        self.cache.reorder(torch.from_numpy(row).to(self.device))
        self._seen = [list(self._seen[number]) for number in row.tolist()]

    def _make_room(self) -> None:
        """Lets the rows that are full begin anew with the newer half of their context."""
        if self.context is None:
            return
        full = [row for row, seen in enumerate(self._seen) if len(seen) == self.context]
        if not full:
            return
        for row in full:
            self._seen[row] = _last(self._seen[row], self.context // 2)
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
