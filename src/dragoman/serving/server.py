"""State shared by all routers: the service, the settings, the metrics, and the execution of requests in threads."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request

from dragoman.errors import ConfigError
from dragoman.serving.keys import ApiKeys, Rates
from dragoman.serving.service import Service
from dragoman.serving.shared_search import Job

T = TypeVar("T")


@dataclass(frozen=True)
class ServerSettings:
    """Network and access settings of a server.

    Attributes:
        keys: key file; without one, no request needs a key.
        suggestions: file for suggested translations; without one, none are accepted.
        allow_origin: origins of other sites whose scripts may use the server; `*` is any.
        allow_host: allowed host names, in addition to addresses, `host` and the name of this machine.
        trusted_proxy: addresses or networks whose X-Forwarded-For is trusted.
    """

    host: str = "127.0.0.1"
    keys: Path | None = None
    suggestions: Path | None = None
    allow_origin: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    trusted_proxy: tuple[str, ...] = ()


class Metrics(Collector):
    """Figures of one server in Prometheus format, in a separate registry. No label contains text sent by a client."""

    def __init__(self, service: Service) -> None:
        self._service, self._registry = service, CollectorRegistry()
        options = {"namespace": "dragoman", "registry": self._registry}
        self._requests = Counter("requests", "Answered requests.", ("route", "status"), **options)
        self._seconds = Histogram("request_seconds", "Time to the end of a response.", ("route",), **options)
        self._first = Histogram(
            "first_answer_seconds", "Time to the first bytes of the response to a successful POST.", **options
        )
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def answered(self, route: str, status: int, seconds: float, first: float | None) -> None:
        """Count a request by its duration, and by the time to the first bytes of a successful response."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if first is not None:
            self._first.observe(first)

    def collect(self) -> Iterator[Metric]:
        """Yield the figures that the service keeps; they are read on demand."""
        service = self._service
        searches = [model.search for model in service.models if model.search is not None]
        for name, meaning, value in (
            ("ready", "Whether requests are answered.", service.is_ready),
            ("under_way", "Active requests.", service.active_requests),
            ("sentences", "Sentences that wait or are being translated.", sum(search.waiting for search in searches)),
        ):
            yield GaugeMetricFamily(f"dragoman_{name}", meaning, value)
        tokens, replaced = sum(search.tokens for search in searches), sum(search.replaced for search in searches)
        yield CounterMetricFamily("dragoman_tokens", "Tokens that the searches wrote.", tokens)
        yield CounterMetricFamily("dragoman_searches_replaced", "Searches that failed and were restarted.", replaced)

    def text(self) -> bytes:
        """Return all figures in Prometheus's text format."""
        return generate_latest(self._registry)


class Server:
    """Server state that the routers share. A bad key file or trusted proxy raises `ConfigError`."""

    def __init__(self, service: Service, settings: ServerSettings) -> None:
        self.service, self.settings, self.metrics = service, settings, Metrics(service)
        self.keys = None if settings.keys is None else ApiKeys(settings.keys)
        try:
            self.proxies = [ipaddress.ip_network(proxy) for proxy in settings.trusted_proxy]
        except ValueError as error:
            raise ConfigError(f"--trusted-proxy takes an address or a network: {error}") from None
        self.rates = Rates(service.limits.requests_a_minute)
        self._threads = ThreadPoolExecutor(service.limits.requests, "request")

    async def work(self, request: Request, call: Callable[[Job], T]) -> T:
        """Run `call` with a job in a thread and return its result, or refuse it if too many are active (503).

        The body must have been read before. The job is cancelled if the client disconnects.
        """
        with self.service.job() as job:
            watcher = asyncio.create_task(_cancel_with_client(request, job))
            try:
                return await asyncio.get_running_loop().run_in_executor(self._threads, call, job)
            except asyncio.CancelledError:
                job.cancel()
                raise
            finally:
                watcher.cancel()

    async def stream(self, request: Request, call: Callable[[Job], Iterator[T]]) -> AsyncIterator[T]:
        """Run `call` like `work`; return an iterator over its values. An error before the first still gets a status."""
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
    """Return the server that handles a request."""
    return request.app.state.server


async def _cancel_with_client(request: Request, job: Job) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    job.cancel()
