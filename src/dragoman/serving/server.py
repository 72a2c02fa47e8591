"""What every router needs: the service, the settings of the server, and the one way to work for a request."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from starlette.requests import Request

from dragoman.errors import ConfigError
from dragoman.serving.keys import Keys, Rates
from dragoman.serving.metrics import Metrics
from dragoman.serving.service import Service
from dragoman.serving.shared_search import Job

T = TypeVar("T")


@dataclass(frozen=True)
class ServerSettings:
    """How a server is reached, and by whom.

    Attributes:
        keys: the file of keys; without one, no request needs a key.
        suggestions: the file that suggested translations are written to; without one, none are taken.
        allow_origin: the origins of other sites whose scripts may use the server; `*` is any.
        allow_host: the names by which it is reached, besides addresses, `host` and the name of this machine.
        trusted_proxy: the addresses or networks whose X-Forwarded-For is believed.
    """

    host: str = "127.0.0.1"
    keys: Path | None = None
    suggestions: Path | None = None
    allow_origin: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    trusted_proxy: tuple[str, ...] = ()


class Server:
    """What the routers share.

    Raises:
        ConfigError: the file of keys cannot be read, or a trusted proxy is neither an address nor a network.
    """

    def __init__(self, service: Service, settings: ServerSettings) -> None:
        self.service, self.settings, self.metrics = service, settings, Metrics(service)
        self.keys = None if settings.keys is None else Keys(settings.keys)
        try:
            self.proxies = [ipaddress.ip_network(proxy) for proxy in settings.trusted_proxy]
        except ValueError as error:
            raise ConfigError(f"--trusted-proxy takes an address or a network: {error}") from None
        self.rates = Rates(service.limits.requests_a_minute)
        self._threads = ThreadPoolExecutor(service.limits.requests, "request")

    async def work(self, request: Request, call: Callable[[Job], T]) -> T:
        """What `call` returns for a place of this request. It runs in a thread. If the client goes, the job ends.

        The body must have been read before.

        Raises:
            Refused: there is no place (503), or as in `call`.
        """
        with self.service.job() as job:
            watching = asyncio.create_task(_end_with_client(request, job))
            try:
                return await asyncio.get_running_loop().run_in_executor(self._threads, call, job)
            except asyncio.CancelledError:
                job.cancel()
                raise
            finally:
                watching.cancel()

    async def stream(self, request: Request, call: Callable[[Job], Iterator[T]]) -> AsyncIterator[T]:
        """What the iterator of `call` yields, as it comes; otherwise as `work`. The first value is waited for here, so
        that an error before it still has a status.
        """
        loop, values = asyncio.get_running_loop(), asyncio.Queue[T | None]()

        def run(job: Job) -> None:
            for value in call(job):
                loop.call_soon_threadsafe(values.put_nowait, value)

        working = asyncio.create_task(self.work(request, run))
        working.add_done_callback(lambda _: values.put_nowait(None))
        value = await values.get()
        if value is None:
            await working

        async def from_first(value: T | None) -> AsyncIterator[T]:
            try:
                while value is not None:
                    yield value
                    value = await values.get()
                await working
            finally:
                working.cancel()

        return from_first(value)


def server_of(request: Request) -> Server:
    """The server that a request has come to."""
    return request.app.state.server


async def _end_with_client(request: Request, job: Job) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    job.cancel()
