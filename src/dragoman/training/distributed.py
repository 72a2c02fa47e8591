"""The processes that train one model together: their ranks, what they exchange, and how they end.

`torchrun` starts and numbers them. All run the same lines; only the first (rank 0) prepares data, writes files and
prints. A single process is `ALONE` and exchanges nothing. An error on any rank stops all ranks and is reported once.

torch's `@record` is not used: it shows torchrun a traceback, and a mistake of the user is one line.
"""

import itertools
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed import HashStore, PrefixStore, Store, rendezvous  # pyright: ignore[reportPrivateImportUsage]

from dragoman import errors, system
from dragoman.errors import ConfigError, Diverged, Error, Interrupted

T = TypeVar("T")

TIMEOUT = timedelta(minutes=30)
"""Longest wait for a sum: longer than any step, and than saving between two steps."""
PATIENCE = timedelta(days=7)
"""Longest wait for work that the first process does alone, such as preparing data."""
LAST_WORDS = timedelta(seconds=10)
"""Longest wait for another process's error after a connection breaks."""
_ERROR = "error"
_joined = itertools.count()


class World:
    """The processes of a run, as seen from one of them. All ranks call its methods in the same order."""

    def __init__(
        self, rank: int = 0, size: int = 1, store: Store | None = None, patient: dist.ProcessGroup | None = None
    ) -> None:
        self.rank, self.size = rank, size
        self._store = store or HashStore()
        """The key-value store of the run."""
        self._patient = patient
        """All processes, on the host, with `PATIENCE`."""
        self._is_broken = False

    @property
    def is_first(self) -> bool:
        """True if this process has rank 0."""
        return self.rank == 0

    def owns(self, index: int) -> bool:
        """Return True if this process computes micro-batch `index` of a step."""
        return index % self.size == self.rank

    def share(self, make: Callable[[], T]) -> T:
        """Call `make` on the first process and return its result on all ranks, which wait as long as it takes."""
        if self.size == 1:
            return make()
        shared: list[Any] = [make() if self.is_first else None]
        with self._connection():
            dist.broadcast_object_list(shared, group=self._patient, device=torch.device("cpu"))
        return shared[0]

    def after_first(self, do: Callable[[], T]) -> T:
        """Run `do` on the first process, and then on the others, which find the files that the first has made."""
        made = [do()] if self.is_first else []
        self.share(lambda: None)
        return made[0] if made else do()

    def any(self, flag: bool) -> bool:
        """Return True if the flag is set on any rank."""
        flags = torch.tensor([flag], dtype=torch.int32)  # on the host, so that nothing waits for a GPU
        self._reduce(flags, dist.ReduceOp.MAX)
        return bool(flags)

    def sum(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over all ranks, with the same bits on all. A GPU only queues the sum."""
        for tensor in tensors:
            self._reduce(tensor, dist.ReduceOp.SUM)

    def wait_for_all(self) -> None:
        """Wait until all ranks have called this."""
        with self._connection():
            dist.barrier(self._patient)

    def end(self, error: BaseException) -> None:
        """End this process's part in the run with an error, and choose the one rank that prints it.

        All ranks raise `Interrupted` and `Diverged` after the same step. They wait for the first, which still saves,
        because torchrun kills all processes as soon as one fails.
        """
        if isinstance(error, Interrupted | Diverged) and not self._is_broken:
            self.wait_for_all()
            error.reported = not self.is_first
        elif self._first_error(error) is not error and isinstance(error, Error):
            error.reported = True

    def _reduce(self, tensor: Tensor, operation: dist.ReduceOp.RedOpType) -> None:
        if self.size > 1:
            with self._connection():
                dist.all_reduce(tensor, operation)

    @contextmanager
    def _connection(self) -> Generator[None]:
        """Raise another process's error if a connection breaks because that process has ended."""
        try:
            yield
        except RuntimeError as broken:
            self._is_broken = True
            with suppress(dist.DistError):
                self._store.wait([_ERROR], LAST_WORDS)
            gone = "another process of the run has ended without an error message"
            advice = "the same command continues from the last checkpoint"
            raise self._first_error(Interrupted(f"{gone}; {advice}")) from broken

    def _first_error(self, error: BaseException) -> BaseException:
        """Return the error that ends the run: the one that any rank stored first. This one, if none did."""
        kind = "Interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__
        words = json.dumps({"rank": self.rank, "kind": kind, "message": str(error)})
        try:
            first = json.loads(self._store.compare_set(_ERROR, "", words))
        except dist.DistError:  # the process that kept the store is gone
            return error
        if first["rank"] == self.rank:
            return error
        theirs = getattr(errors, first["kind"], Error)(first["message"])
        theirs.reported = True
        return theirs


ALONE = World()
"""A run of one process."""


@contextmanager
def join(device: str = "cpu") -> Generator[World]:
    """Yield the world that torchrun's environment variables describe, or raise `ConfigError`; `ALONE` without them."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    backend = "cpu:gloo,cuda:nccl" if _takes_gpu(device) else "gloo"
    store = PrefixStore(f"run {next(_joined)}", _store())
    dist.init_process_group(backend, store=store, rank=system.rank(), world_size=size, timeout=TIMEOUT)
    patient = dist.new_group(backend="gloo", timeout=PATIENCE)
    assert isinstance(patient, dist.ProcessGroup), "every rank belongs to it"
    world = World(system.rank(), size, store, patient)
    try:
        yield world
        world.wait_for_all()
    except BaseException as error:
        world.end(error)
        raise
    finally:
        dist.destroy_process_group()


def refuse_several(what: str) -> None:
    """Refuse work that only one process can do if torchrun has started several."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        error = ConfigError(f"{what} is made by one process; torchrun is for dragoman train and fine-tune")
        error.reported = system.rank() > 0
        raise error


@cache
def _store() -> Store:
    """Return the key-value store of all processes; torchrun hosts it, or else the first process does."""
    try:
        return next(rendezvous("env://", timeout=TIMEOUT))[0]
    except ValueError as error:
        raise ConfigError(f"WORLD_SIZE is set, but {error}; start several processes with torchrun") from None


def _takes_gpu(device: str) -> bool:
    """Choose a separate GPU for this process, if the run may use GPUs; return True if it did."""
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
