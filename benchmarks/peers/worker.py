"""Each contender in a process of its own, which waits for its turn.

This way a toolkit's settings, crashes and memory stay its own, its peak is that of a fresh process, and the allocator
is set for it alone. After each turn it returns free memory to the system, because many contenders share one machine.
"""

import ctypes
import multiprocessing
import os
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dragoman.data.batching import Batch, Batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.memory import keep_freed_memory, peak_memory_bytes
from dragoman.system import WAITING
from peers.contest import Contender, Shape, TextShape, timed
from peers.entrants import AS_WRITTEN, OURS, Entrant, build
from peers.tutorial import SENTENCES

ALLOCATORS = ("default", "keep")
"""glibc's default, or the setting of `keep_freed_memory`, with which Dragoman trains."""


class Run(NamedTuple):
    """What every process needs to build the same batches and models."""

    corpus: Path
    batch_tokens: int
    batches: int
    shape: Shape
    threads: int

    def load(self) -> list[Batch]:
        """The first batches of an epoch that are more than half full. The small one with the leftovers is one in a
        hundred in training, but would be one in five here.
        """
        torch.set_num_threads(self.threads)
        batches = Batches(EncodedCorpus.open(self.corpus), self.batch_tokens, seed=1)
        made = (batches.batch(pairs) for pairs in batches.epoch(0))
        found = list(islice((batch for batch in made if batch.size.tokens > self.batch_tokens), self.batches))
        if len(found) < self.batches:
            raise SystemExit(f"error: the text fills {len(found)} batches of {self.batch_tokens:,}, not {self.batches}")
        return found

    def build(self, entrant: Entrant, batches: Sequence[Batch]) -> Contender:
        """A contender's model and step."""
        return build(entrant, batches, self.shape)

    def load_as_written(self) -> list[Batch]:
        """The tutorial's batches: a few random sentences of any length."""
        torch.set_num_threads(self.threads)
        batches = Batches(corpus := EncodedCorpus.open(self.corpus), self.batch_tokens)
        order = torch.randperm(len(corpus), generator=torch.Generator().manual_seed(1)).numpy()
        return [batches.batch(order[first : first + SENTENCES]) for first in (0, SENTENCES)]


class TextRun(NamedTuple):
    """The same for models of running text."""

    corpus: Path
    batch_tokens: int
    batches: int
    shape: TextShape
    threads: int

    def load(self) -> list[Batch]:
        """The first full batches of an epoch."""
        torch.set_num_threads(self.threads)
        batches = Batches(EncodedCorpus.open(self.corpus), self.batch_tokens, seed=1)
        made = (batches.batch(rows) for rows in batches.epoch(0))
        full = self.batch_tokens // self.shape.window * self.shape.window
        return [*islice((batch for batch in made if batch.size.target_tokens == full), self.batches)]

    def build(self, entrant: Entrant, batches: Sequence[Batch]) -> Contender:
        """A contender's model and step."""
        if entrant.toolkit == OURS:
            from peers import own

            return own.build(batches, self.shape, entrant.way, entrant.variant)
        from peers.xtransformers import build_decoder

        return build_decoder(batches, self.shape, entrant.way, entrant.variant)


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


class Lost(Exception):
    """A contender's process failed; the message says why."""


class Worker:
    """A contender's process, seen from this one."""

    def __init__(self, entrant: Entrant, run: Run | TextRun, allocator: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=_serve, args=(far, entrant, run, allocator), daemon=True)
        with patient_threads():
            self._process.start()
        far.close()
        self.facts: Facts = self._hear()

    def turn(self, batches: int) -> Turn:
        """Takes steps on the first `batches`, first untimed, then timed."""
        with suppress(BrokenPipeError):  # `_hear` says why
            self._pipe.send(batches)
        return self._hear()

    def leave(self) -> None:
        self._pipe.close()
        self._process.join()

    def _hear(self) -> Any:
        try:
            said = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise Lost(f"its process ended with code {self._process.exitcode}") from None
        if isinstance(said, str):
            raise Lost(said)
        return said


def take_turn(contender: Contender, tokens: Sequence[int]) -> Turn:
    """Times all batches with caches and memory as in the middle of training. Two untimed passes come first: each batch
    takes new memory in the first one, and only in the second do the batches reuse each other's.
    """
    for _ in range(2):
        timed(contender, range(len(tokens)))
    seconds, loss = timed(contender, range(len(tokens)))
    return Turn(sum(tokens) / seconds, loss, peak_memory_bytes())


def _serve(pipe: Connection, entrant: Entrant, run: Run | TextRun, allocator: str) -> None:
    """What that process does: builds its contender, then takes the turns it is asked for, until the pipe closes."""
    if allocator == "keep":
        keep_freed_memory()
    warnings.simplefilter("ignore")  # toolkits warn about missing GPUs
    try:
        torch.manual_seed(1)
        batches = run.load_as_written() if isinstance(run, Run) and entrant.toolkit == AS_WRITTEN else run.load()
        contender = run.build(entrant, batches)
        parameters = sum(weight.numel() for weight in contender.model.parameters() if weight.requires_grad)
        facts = Facts(parameters, [batch.size.tokens for batch in batches])
        pipe.send(facts)
        while True:
            pipe.send(take_turn(contender, facts.tokens[: pipe.recv()]))
            _give_back()
    except EOFError:
        return
    except Exception:
        pipe.send(traceback.format_exc(limit=-4))


def _give_back() -> None:
    """Returns free memory to the system, if the allocator can."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


@contextmanager
def patient_threads() -> Iterator[None]:
    """Processes that start inside this context let OpenMP's threads sleep while they wait, as the command line does."""
    before = dict(os.environ)
    os.environ.update({**WAITING, **before})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
