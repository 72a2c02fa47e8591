"""The processes that train one model together: who they are, what they exchange, and how they end.

`torchrun` starts and numbers them. All run the same lines; only the first (rank 0) prepares data, writes files and
prints. A single process is `ALONE` and exchanges nothing. An error on any rank stops all ranks and is reported once.
"""

import itertools
import json
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed import PrefixStore, Store, rendezvous  # pyright: ignore[reportPrivateImportUsage]

from dragoman import errors, machine
from dragoman.errors import ConfigError, Diverged, Error, Interrupted
from dragoman.training.exchanges import Exchanges, OutOfStep

T = TypeVar("T")

TIMEOUT = timedelta(minutes=30)
"""Longest wait for a collective: longer than any step, and than saving between two steps."""
_PATIENCE_SECONDS = 1.0
"""How long a rank waits for the others before it compares its exchanges with theirs."""
_LONGEST_PAUSE, _LAST_WORDS_SECONDS = 0.5, 10.0
_FAILED, _ARRIVED, _ENDED, _LEFT = "failed", "arrived", "ended", "left"
_joined = itertools.count()


class Links(NamedTuple):
    """What connects a process to the others of its run."""

    store: Store
    """Key-value store of the run."""
    flags: dist.ProcessGroup
    """A group of its own: on a shared connection, a flag paired with a gradient of another size would abort the
    process.
    """
    exchanges: Exchanges
    """The exchanges that this rank has begun."""


class World:
    """The processes of a run, as one of them sees them.

    Every rank calls `share`, `after_first`, `any` and `sum` in the same order with the same names. If two ranks differ,
    the run ends with a `RuntimeError` that names both exchanges: at once if a rank has to wait, and else, as after two
    swapped sums of equal size, at the next `any`. The comparison costs nothing while no rank waits.
    """

    def __init__(self, rank: int = 0, size: int = 1, links: Links | None = None) -> None:
        self.rank, self.size = rank, size
        self._links = links
        self._is_broken = self._works_alone = False

    @property
    def is_first(self) -> bool:
        """Whether this process has rank 0."""
        return self.rank == 0

    def owns(self, index: int) -> bool:
        """Whether this process computes micro-batch `index` of a step."""
        return index % self.size == self.rank

    def share(self, name: str, make: Callable[[], T]) -> T:
        """Calls `make` on the first process and returns its result, which must be JSON, on all ranks. The others wait
        as long as it takes.
        """
        if self._links is None:
            return make()
        links = self._begin(self._links, f"share {name!r}")
        if not self.is_first:
            return self._receive(links)
        value = self._run_alone(links, make)
        self._send(links, value)
        return value

    def after_first(self, name: str, do: Callable[[], T]) -> T:
        """Runs `do` on the first process, and then on the others, which find the files that the first has made."""
        if self._links is None:
            return do()
        links = self._begin(self._links, f"after_first {name!r}")
        if not self.is_first:
            self._receive(links)
            return do()
        made = self._run_alone(links, do)
        self._send(links, None)
        return made

    def any(self, name: str, flag: bool) -> bool:
        """Whether the flag is set on any rank."""
        if self._links is None:
            return flag
        links = self._begin(self._links, f"any {name!r}")
        seen = links.exchanges.fingerprint
        found = torch.tensor([flag, seen, -seen])  # on the host, so that nothing waits for a GPU
        self._reduce(links, found, dist.ReduceOp.MAX, links.flags)
        flag, highest, lowest = found.tolist()
        if highest != -lowest:
            links.exchanges.compare()
            raise self._error_of_another(links)
        links.exchanges.agree()
        return bool(flag)

    def sum(self, name: str, *tensors: Tensor) -> None:
        """Replaces each tensor by its sum over all ranks, with the same bits on all of them.

        On a GPU this only queues the sum; torch ends ranks that wait for each other longer than `TIMEOUT`.
        """
        if self._links is None:
            return
        links = self._begin(self._links, f"sum {name!r}")
        for tensor in tensors:
            self._reduce(links, tensor, dist.ReduceOp.SUM)

    def leave(self, error: BaseException | None) -> None:
        """Ends this process's part in the run. After success, or an error that all ranks raise at the same step, it
        waits for the others. It reports any other error to them.

        The others wait for the first, because torchrun kills all processes as soon as one fails.
        """
        if self._links is None:
            return
        if error is not None and not (isinstance(error, Interrupted | Diverged) and self._is_in_step):
            self._report(self._links, error)
            return
        try:
            self._end_together(self._links)
        except BaseException as fault:
            self._report(self._links, fault)
            raise
        if isinstance(error, Error):
            error.told = not self.is_first

    def _end_together(self, links: Links) -> None:
        self._begin(links, "the end")
        links.exchanges.compare()  # an exchange that only this rank began may have made nobody wait
        if self.is_first:
            self._wait_for_all(links, _ARRIVED)
            links.store.set(_ENDED, "")
            self._wait_for_all(links, _LEFT)  # this process may host the store
        else:
            links.store.add(_ARRIVED, 1)
            self._wait(links, _ENDED)
            links.store.add(_LEFT, 1)

    @property
    def _is_in_step(self) -> bool:
        return not (self._is_broken or self._works_alone)

    def _begin(self, links: Links, exchange: str) -> Links:
        assert not self._works_alone, f"{exchange} is within {links.exchanges.name}, which the first process does alone"
        links.exchanges.begin(exchange)
        return links

    def _run_alone(self, links: Links, do: Callable[[], T]) -> T:
        links.exchanges.compare()  # now, because the work may take hours
        self._works_alone = True
        made = do()
        self._works_alone = False
        return made

    def _send(self, links: Links, value: Any) -> None:
        links.store.set(f"made {links.exchanges.number}", json.dumps([links.exchanges.name, value]))

    def _receive(self, links: Links) -> Any:
        name, value = json.loads(self._wait(links, f"made {links.exchanges.number}"))
        links.exchanges.expect(name, 0)
        return value

    def _reduce(
        self, links: Links, tensor: Tensor, operation: dist.ReduceOp.RedOpType, group: dist.ProcessGroup | None = None
    ) -> None:
        with self._connection(links):
            work = dist.all_reduce(tensor, operation, group, async_op=tensor.is_cpu)
        while work is not None and not self._is_done(links, work):
            self._check_others(links)

    def _is_done(self, links: Links, work: dist.Work) -> bool:
        with self._connection(links):
            return _is_done_soon(work)

    def _wait(self, links: Links, key: str) -> str:
        """Waits until another process has set a key, and returns its value. Polls instead of blocking, so that a signal
        still ends the process.
        """
        pause = 0.01
        while not self._has(links, key):
            self._check_others(links)
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE, 1.2 * pause)
        with self._connection(links):
            return links.store.get(key).decode()

    def _wait_for_all(self, links: Links, key: str) -> None:
        """Waits until all others have counted themselves under this key, `_LAST_WORDS_SECONDS` at most."""
        ends = time.monotonic() + _LAST_WORDS_SECONDS
        while time.monotonic() < ends and not self._have_all(links, key):
            self._check_others(links)
            time.sleep(0.01)

    def _have_all(self, links: Links, key: str) -> bool:
        with self._connection(links):
            return links.store.add(key, 0) == self.size - 1

    def _has(self, links: Links, key: str) -> bool:
        with self._connection(links):
            return links.store.check([key])

    def _check_others(self, links: Links) -> None:
        """Compares this rank's exchanges with those of other waiting ranks, and raises if another rank has failed."""
        with self._connection(links):
            links.exchanges.compare()
        if self._has(links, _FAILED):
            raise self._error_of_another(links)

    @contextmanager
    def _connection(self, links: Links) -> Generator[None]:
        """If a connection breaks because another process has ended, raises that process's error."""
        try:
            yield
        except OutOfStep:
            raise
        except RuntimeError as broken:
            raise self._error_of_another(links) from broken

    def _error_of_another(self, links: Links) -> BaseException:
        """The error with which another process ended the run."""
        self._is_broken = True
        try:
            links.store.wait([_FAILED], timedelta(seconds=_LAST_WORDS_SECONDS))
            return _read(links.store.get(_FAILED))
        except dist.DistError:
            return _gone()

    def _report(self, links: Links, error: BaseException) -> None:
        """Stores the error for the other processes. The first process to store one prints it."""
        kind = "Interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__
        words = json.dumps({"rank": self.rank, "kind": kind, "message": str(error)})
        try:
            first = json.loads(links.store.compare_set(_FAILED, "", words))
        except dist.DistError:
            return
        if isinstance(error, Error) and first["rank"] != self.rank:
            error.told = True


ALONE = World()
"""A run of one process."""


@contextmanager
def join(device: str = "cpu") -> Generator[World]:
    """Within the block, the world that torchrun's environment variables describe; `ALONE` without them.

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
    store = PrefixStore(run, base)
    flags = dist.new_group(backend="gloo", timeout=TIMEOUT)
    assert isinstance(flags, dist.ProcessGroup), "every rank belongs to it"
    world = World(machine.rank(), size, Links(store, flags, Exchanges(machine.rank(), store)))
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
    """Refuses work that only one process can do if torchrun has started several.

    Raises:
        ConfigError: this process is one of several.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        error = ConfigError(f"{what} is made by one process; torchrun is for dragoman train and fine-tune")
        error.told = machine.rank() > 0
        raise error


@cache
def _store() -> Store:
    """The key-value store of all processes; torchrun hosts it, or else the first process does."""
    try:
        return next(rendezvous("env://", timeout=TIMEOUT))[0]
    except ValueError as error:
        raise ConfigError(f"WORLD_SIZE is set, but {error}; start several processes with torchrun") from None


def _takes_gpu(device: str) -> bool:
    """Gives this process a GPU of its own, if the run may use GPUs; returns whether it did."""
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


def _is_done_soon(work: dist.Work) -> bool:
    """Whether the work ends within `_PATIENCE_SECONDS`.

    Raises:
        RuntimeError: another process has closed its connection.
    """
    try:
        return work.wait(timedelta(seconds=_PATIENCE_SECONDS))
    except RuntimeError:
        return work.is_completed() and work.wait()  # raises again, unless the work ended just now


def _read(words: bytes) -> BaseException:
    """The error that another process stored; an exception that is not an `Error` becomes a `RuntimeError`."""
    stored = json.loads(words)
    error = getattr(errors, stored["kind"], RuntimeError)(stored["message"])
    if isinstance(error, Error):
        error.told = True
    return error


def _gone() -> Interrupted:
    return Interrupted(
        "another process of the run has ended without a word; the same command goes on from the last checkpoint"
    )
