"""Contenders of a training step, each in a process of its own.

The allocator keeps freed memory, as when Dragoman trains. After each turn it returns free memory to the system, because
many contenders share one machine.
"""

import ctypes
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch

from dragoman.data.batching import Batch, Batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.memory import keep_freed_memory, peak_memory_bytes
from peers.contest import Contender, Shape, TextShape, timed
from peers.entrants import OURS, Entrant, build
from peers.processes import Remote


class Run(NamedTuple):
    """Facts that every process needs to build the same batches and models."""

    corpus: Path
    batch_tokens: int
    batches: int
    shape: Shape
    threads: int

    def load(self) -> list[Batch]:
        """Return the first batches of an epoch that are more than half full.

        The small batch that is left over is one in a hundred in training, but would be one in five here.
        """
        made = _first_epoch(self.corpus, self.batch_tokens, self.threads)
        batches = [*islice((batch for batch in made if batch.size.tokens > self.batch_tokens), self.batches)]
        if len(batches) < self.batches:
            count = f"{len(batches)} batches of {self.batch_tokens:,}"
            raise SystemExit(f"error: the text fills {count}, not {self.batches}")
        return batches

    def build(self, entrant: Entrant, batches: Sequence[Batch]) -> Contender:
        """Return a contender's model and step."""
        return build(entrant, batches, self.shape)


class TextRun(NamedTuple):
    """The same facts for models of running text."""

    corpus: Path
    batch_tokens: int
    batches: int
    shape: TextShape
    threads: int

    def load(self) -> list[Batch]:
        """Return the first full batches of an epoch."""
        made = _first_epoch(self.corpus, self.batch_tokens, self.threads)
        full = self.batch_tokens // self.shape.window * self.shape.window
        return [*islice((batch for batch in made if batch.size.target_tokens == full), self.batches)]

    def build(self, entrant: Entrant, batches: Sequence[Batch]) -> Contender:
        """Return a contender's model and step."""
        if entrant.toolkit == OURS:
            from peers import own

            return own.build(batches, self.shape, entrant.way, entrant.variant)
        from peers.xtransformers import build_decoder

        return build_decoder(batches, self.shape, entrant.way, entrant.variant)


def _first_epoch(corpus: Path, batch_tokens: int, threads: int) -> Iterator[Batch]:
    torch.set_num_threads(threads)
    batches = Batches(EncodedCorpus.open(corpus), batch_tokens, seed=1)
    return (batches.batch(rows) for rows in batches.epoch(0))


class Facts(NamedTuple):
    parameters: int
    tokens: Sequence[int]
    """Real source and target tokens of each batch."""


class Turn(NamedTuple):
    tokens_per_second: float
    loss: float
    """Mean over the steps of the turn, in nats a target token."""
    peak_memory_bytes: int | None
    """Peak so far."""


class Worker:
    """A contender's process, seen from this process."""

    def __init__(self, entrant: Entrant, run: Run | TextRun) -> None:
        self._remote = Remote(_start, entrant, run)
        self.facts: Facts = self._remote.facts

    def turn(self, batches: int) -> Turn:
        """Take steps on the first `batches`, first untimed, then timed."""
        return self._remote.ask(batches)

    def leave(self) -> None:
        """End the process."""
        self._remote.leave()


def _start(entrant: Entrant, run: Run | TextRun) -> tuple[Facts, Callable[[int], Turn]]:
    """Build a contender in its process, and return its facts and its turn."""
    keep_freed_memory()
    warnings.simplefilter("ignore")  # toolkits warn about missing GPUs
    torch.manual_seed(1)
    batches = run.load()
    contender = run.build(entrant, batches)
    parameters = sum(weight.numel() for weight in contender.model.parameters() if weight.requires_grad)
    facts = Facts(parameters, [batch.size.tokens for batch in batches])

    def turn(count: int) -> Turn:
        taken = take_turn(contender, facts.tokens[:count])
        _return_memory()
        return taken

    return facts, turn


def take_turn(contender: Contender, tokens: Sequence[int]) -> Turn:
    """Time all batches with caches and memory as in the middle of training, after two untimed passes.

    Each batch takes new memory in the first pass, and only in the second do the batches reuse each other's.
    """
    for _ in range(2):
        timed(contender, range(len(tokens)))
    seconds, loss = timed(contender, range(len(tokens)))
    return Turn(sum(tokens) / seconds, loss, peak_memory_bytes())


def _return_memory() -> None:
    """Return free memory to the system, if the allocator can."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
