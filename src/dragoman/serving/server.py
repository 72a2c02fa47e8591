"""What every router needs: the service, the settings of the server, and the one way to work for a request."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from starlette.requests import Request

from dragoman.serving.keys import Keys, Rates
from dragoman.serving.metrics import Metrics
from dragoman.serving.service import Service
from dragoman.serving.shared_search import Job

T = TypeVar("T")


@dataclass(frozen=True)
class ServerSettings:
    """How a server is reached, and by whom."""

    host: str = "127.0.0.1"
    keys: Path | None = None
    """The file of keys; without one, no request needs a key."""
    suggestions: Path | None = None
    """The file that suggested translations are written to; without one, none are taken."""
    allow_origin: tuple[str, ...] = ()
    """The origins of other sites whose scripts may use this server; `*` is any."""
    allow_host: tuple[str, ...] = ()
    """The names by which this server is reached, besides addresses, those of this machine and `host`."""
    trusted_proxy: tuple[str, ...] = ()
    """The addresses or networks whose X-Forwarded-For is believed."""


class Server:
    """What the routers share.

    Attributes:
        keys: who may use the server; None if anybody may.
        rates: how often.
        metrics: what is counted and timed.
    """

    def __init__(self, service: Service, settings: ServerSettings) -> None:
        """Raises:
        ConfigError: the file of keys cannot be read.
        """
        self.service, self.settings = service, settings
        self.keys = None if settings.keys is None else Keys(settings.keys)
        self.rates = Rates(service.limits.requests_a_minute)
        self.metrics = Metrics(service)
        self._threads = ThreadPoolExecutor(service.limits.requests, "request")

    async def work(self, request: Request, call: Callable[[Job], T]) -> T:
        """What `call` returns for a place of this request. It runs in a thread. If the client goes, the job ends.

        The body must have been read before.

        Raises:
            Refused: there is no place (503), or as in `call`.
        """
        with self.service.job() as job:
            gone = asyncio.create_task(_watch(request, job))
            try:
                return await asyncio.get_running_loop().run_in_executor(self._threads, call, job)
            except asyncio.CancelledError:
                job.cancel()
                raise
            finally:
                gone.cancel()

    async def stream(self, request: Request, call: Callable[[Job], Iterator[T]]) -> AsyncIterator[T]:
        """What the iterator of `call` yields, each as soon as it is there; otherwise as `work`.

        The first value is waited for here, so that what `call` raises before it can still be answered with a status.
        """
        loop = asyncio.get_running_loop()
        values: asyncio.Queue[T | None] = asyncio.Queue()

        def run(job: Job) -> None:
            try:
                for value in call(job):
                    loop.call_soon_threadsafe(values.put_nowait, value)
            finally:
                loop.call_soon_threadsafe(values.put_nowait, None)

        working = asyncio.create_task(self.work(request, run))
        working.add_done_callback(lambda _: values.put_nowait(None))
        first = await values.get()
        if first is None:
            await working

        async def rest() -> AsyncIterator[T]:
            value = first
            try:
                while value is not None:
                    yield value
                    value = await values.get()
                await working
            finally:
                working.cancel()

        return rest()


def server_of(request: Request) -> Server:
    """The server that a request has come to."""
    return request.app.state.server


async def _watch(request: Request, job: Job) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    job.cancel()
