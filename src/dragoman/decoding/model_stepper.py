"""A stepper for PyTorch models. It supports observers, any kind of projection and any device."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding.hypothesis import Outputs
from dragoman.decoding.steppers import TopTokens
from dragoman.model.cache import Cache
from dragoman.model.observer import Observer
from dragoman.model.packing import Packing
from dragoman.model.transformer import EncoderDecoder, LanguageModel
from dragoman.shapes import Float, Int

_ROWS = 512  # rows of logits at a time, to limit the memory for large vocabularies


class TensorScores:
    """A `StepScores` of log-probabilities (R, V) on the device of the model. They are modified in place."""

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
    def make_certain(self, rows: Int[np.ndarray, "Q"], tokens: Int[np.ndarray, "Q"]) -> None:
        self.log_prob[self._here(rows), self._here(tokens)] = 0.0

    @torch.inference_mode()
    def best(self, count: int) -> TopTokens:
        value, token = best_tokens(self.log_prob, min(count, self.log_prob.size(1)))
        return TopTokens(value.cpu().numpy(), token.cpu().numpy())

    def write_next(self, outputs: Outputs, limits: Int[np.ndarray, "B"], end: int) -> None:
        return None  # there is no fast path in PyTorch

    def log_probs(self) -> Float[np.ndarray, "R V"]:
        return self.log_prob.cpu().numpy()

    def from_log_probs(self, log_prob: Float[np.ndarray, "R V"]) -> "TensorScores":
        return TensorScores(torch.from_numpy(log_prob))

    def _here(self, numbers: Int[np.ndarray, "..."]) -> Int[Tensor, "..."]:
        return torch.from_numpy(numbers).to(self.log_prob.device)


def best_tokens(log_prob: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """Return the best `count` tokens of each row in order, the lower id first among equals, unlike `topk`."""
    if count == 1:
        return log_prob.max(dim=1, keepdim=True)  # returns the first of equals
    value, token = log_prob.topk(min(count + 1, log_prob.size(1)))
    if not (value[:, 1:] == value[:, :-1]).any():  # waits for a GPU, but the host needs the values next anyway
        return value[:, :count], token[:, :count]
    value, token = value[:, :count], token[:, :count]
    edge = value[:, -1:]  # topk chose arbitrary tokens among those equal to the last
    above = ~(value <= edge)  # includes NaN
    id_ = torch.arange(log_prob.size(1), device=log_prob.device)
    lowest = torch.where(log_prob == edge, -id_, -log_prob.size(1)).topk(count).indices
    rank = torch.arange(count, device=log_prob.device) - above.sum(1, keepdim=True)
    token = torch.where(above, token, lowest.gather(1, rank.clamp(min=0)))
    token, order = token.sort(dim=1)
    value, order = value.gather(1, order).sort(dim=1, descending=True, stable=True)
    return value, token.gather(1, order)


class ModelStepper:
    """A stepper of a model with a cache. Log-probabilities are float32 for any precision of the weights.

    The observer receives the tensors of all active rows. A language model reads its sources when they are admitted.
    """

    def __init__(self, model: EncoderDecoder | LanguageModel, observer: Observer | None = None) -> None:
        self.model, self.observer = model, observer
        self.cache: Cache | None = None

    @property
    def device(self) -> torch.device:
        return self.model.output.device

    @torch.inference_mode()
    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        packing = Packing.of([len(source) for source in sources], self.device)
        source = self._joined(sources)
        if isinstance(self.model, EncoderDecoder):
            memory = self.model.encode(source, packing, observer=self.observer)
            new = self.model.start(memory, packing)
        else:
            new = self.model.start(len(sources))
            if packing.tokens:
                self.model.decode(source, packing, new, observer=self.observer)
        if self.cache is None or not self.cache.rows:
            self.cache = new
        else:
            self.cache.join(new)

    @torch.inference_mode()
    def advance(self, token: Int[np.ndarray, "R"]) -> TensorScores:
        assert self.cache is not None, "admit rows before advancing"
        packing = Packing.even(len(token), 1, self.device)
        hidden = self.model.decode(torch.from_numpy(token).to(self.device), packing, self.cache, observer=self.observer)
        return TensorScores(self.model.project(hidden).float().log_softmax(-1))

    @torch.inference_mode()
    def select(self, row: Int[np.ndarray, "R2"]) -> None:
        if self.cache is not None:
            self.cache.reorder(torch.from_numpy(row).to(self.device))

    @torch.inference_mode()
    def score(
        self, sources: Sequence[Sequence[int]], inputs: Sequence[Sequence[int]], labels: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "M"]:
        assert isinstance(self.model, EncoderDecoder), "scoring needs a model with a source"
        source_packing = Packing.of([len(source) for source in sources], self.device)
        target_packing = Packing.of([len(ids) for ids in labels], self.device)
        source, fed, label = (self._joined(rows) for rows in (sources, inputs, labels))
        keys = self.model.cross_keys(self.model.encode(source, source_packing), source_packing)
        hidden = self.model.decode(fed, target_packing, keys)
        log_probs = [
            self.model.project(rows).float().log_softmax(-1).gather(1, chosen[:, None])[:, 0]
            for rows, chosen in zip(hidden.split(_ROWS), label.split(_ROWS), strict=True)
        ]
        return torch.cat(log_probs).cpu().numpy()

    def _joined(self, rows: Sequence[Sequence[int]]) -> Int[Tensor, "N"]:
        return torch.tensor(list(chain.from_iterable(rows)), dtype=torch.int64, device=self.device)
