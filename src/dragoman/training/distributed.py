"""Several processes that train one model: who they are, how they add up gradients, and how they end together.

`torchrun` starts and numbers them. The first prepares, writes and speaks; all train. A process on its own is `ALONE`,
and talks to nobody. What one of them cannot go on from ends all, with the error of the one that met it.
"""

import itertools
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed import PrefixStore, Store, rendezvous  # pyright: ignore[reportPrivateImportUsage]

from dragoman import errors, machine
from dragoman.errors import ConfigError, Diverged, Error, Interrupted

TIMEOUT = timedelta(minutes=30)
"""Longer than any step, and than any saving between two steps."""
_LONGEST_PAUSE, _LAST_WORDS_SECONDS = 0.5, 10.0
_FAILED, _ENDED = "failed", "ended"
_joined = itertools.count()


class World:
    """The processes of a run, as one of them sees it."""

    def __init__(self, rank: int = 0, size: int = 1, store: Store | None = None) -> None:
        self.rank, self.size = rank, size
        self._store, self._shared, self._is_torn = store, 0, False

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def owns(self, place: int) -> bool:
        """Whether the batch at this place of a step is this process's to compute."""
        return place % self.size == self.rank

    def sum(self, *tensors: Tensor) -> None:
        """Makes each tensor its sum over all processes, the same bits on all of them."""
        if self._store is not None:
            for tensor in tensors:
                self._reduce(tensor, dist.ReduceOp.SUM)

    def any(self, flag: bool) -> bool:
        """Whether it is so on any process."""
        if self._store is None:
            return flag
        found = torch.tensor(int(flag))  # on the host, so that no GPU is waited for
        self._reduce(found, dist.ReduceOp.MAX)
        return bool(found)

    def share(self, value: Any = None) -> Any:
        """What the first process gives, on all; plain values for JSON. The others wait as long as it takes."""
        if self._store is None:
            return value
        self._shared += 1
        key = f"shared {self._shared}"
        if not self.is_first:
            return json.loads(self._wait(self._store, key))
        self._store.set(key, json.dumps(value))
        return value

    def leave(self, error: BaseException | None) -> None:
        """Ends together what ends well, or by what all find at the same step; tells the others of anything else.

        The others wait for the first: torchrun ends those that still work when one process fails.
        """
        if self._store is None:
            return
        together = error is None or (isinstance(error, Interrupted | Diverged) and not self._is_torn)
        if not together:
            self._tell(self._store, error)
        elif self.is_first:
            self._store.set(_ENDED, "")
        else:
            self._wait(self._store, _ENDED)
            if isinstance(error, Error):
                error.told = True

    def _reduce(self, tensor: Tensor, operation: dist.ReduceOp.RedOpType) -> None:
        try:
            dist.all_reduce(tensor, operation)
        except RuntimeError as broken:  # a connection that another process has closed
            self._is_torn = True
            raise self._last_words() from broken

    def _wait(self, store: Store, key: str) -> str:
        """Asks again and again, rather than block: so a signal still ends the process."""
        pause = 0.01
        try:
            while not store.check([key]):
                if store.check([_FAILED]):
                    raise _read(store.get(_FAILED))
                time.sleep(pause)
                pause = min(_LONGEST_PAUSE, 1.2 * pause)
            return store.get(key).decode()
        except dist.DistError as broken:
            self._is_torn = True
            raise _gone() from broken

    def _last_words(self) -> BaseException:
        """The error by which another process ended the run."""
        assert self._store is not None, "a world of several has a store"
        try:
            self._store.wait([_FAILED], timedelta(seconds=_LAST_WORDS_SECONDS))
            return _read(self._store.get(_FAILED))
        except dist.DistError:
            return _gone()

    def _tell(self, store: Store, error: BaseException | None) -> None:
        """Writes the error down for the others; the first to do so is the one whose message is printed."""
        kind = "Interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__
        words = json.dumps({"rank": self.rank, "kind": kind, "message": str(error)})
        try:
            first = json.loads(store.compare_set(_FAILED, "", words))
        except dist.DistError:
            return
        if isinstance(error, Error) and first["rank"] != self.rank:
            error.told = True


ALONE = World()


@contextmanager
def join(device: str = "cpu") -> Generator[World]:
    """The world that torchrun's variables describe, while the block lasts; `ALONE` without them.

    Raises:
        ConfigError: some of the variables are missing, or the machine has fewer GPUs than processes.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    base, run = _store(), f"run {next(_joined)}"
    backend = "cpu:gloo,cuda:nccl" if _takes_gpu(device) else "gloo"
    links = PrefixStore(f"{run} links", base)
    dist.init_process_group(backend, store=links, rank=machine.rank(), world_size=size, timeout=TIMEOUT)
    world = World(machine.rank(), size, PrefixStore(run, base))
    try:
        try:
            yield world
        except BaseException as error:
            world.leave(error)
            raise
        world.leave(None)
    finally:
        dist.destroy_process_group()


def refuse_several(what: str) -> None:
    """Refuses to make in each of several processes what one alone can make.

    Raises:
        ConfigError: this process is one of several that torchrun began.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        error = ConfigError(f"{what} is made by one process; torchrun is for dragoman train and fine-tune")
        error.told = machine.rank() > 0
        raise error


@cache
def _store() -> Store:
    """What all processes can read and write; torchrun keeps it, or the first process does."""
    try:
        return next(rendezvous("env://", timeout=TIMEOUT))[0]
    except ValueError as error:
        raise ConfigError(f"WORLD_SIZE is set, but {error}; start several processes with torchrun") from None


def _takes_gpu(device: str) -> bool:
    """Takes the GPU of this process's number on its machine, where the run may use GPUs at all."""
    if device not in ("auto", "cuda") or not torch.cuda.is_available():
        return False
    number, present = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= present:
        raise ConfigError(
            f"torchrun starts more than {present} processes on a machine that has {present} GPUs; lower "
            "--nproc-per-node, or use --device cpu"
        )
    torch.cuda.set_device(number)
    return True


def _read(words: bytes) -> BaseException:
    """The error that another process has told of. What is no `Error` there is our mistake, and is none here."""
    told = json.loads(words)
    error = getattr(errors, told["kind"], RuntimeError)(told["message"])
    if isinstance(error, Error):
        error.told = True
    return error


def _gone() -> Interrupted:
    return Interrupted(
        "another process of the run has ended without a word; the same command goes on from the last checkpoint"
    )
