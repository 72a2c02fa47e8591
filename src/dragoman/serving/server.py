"""State shared by all routers: the service, the settings, the metrics, and the execution of requests in threads."""

import asyncio
import ipaddress
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request

from dragoman.errors import ConfigError
from dragoman.serving.accounts import Accounts, open_store
from dragoman.serving.keys import ApiKeys, Key, Rates
from dragoman.serving.limits import DEEPL, Refused
from dragoman.serving.places import WAIT_SECONDS, Places
from dragoman.serving.service import Service
from dragoman.serving.shared_search import Job

T = TypeVar("T")
KEY_FIELDS = ("api_key", "auth_key")
"""Fields that hold a key: LibreTranslate's, and that of DeepL's older clients."""


@dataclass(frozen=True)
class ServerSettings:
    """Network and access settings of a server.

    Attributes:
        keys: key file; without one, no request needs a key.
        suggestions: file for suggested translations; without one, none are accepted.
        allow_origin: origins of other sites whose scripts may use the server; `*` is any.
        allow_host: allowed host names, in addition to addresses, `host` and the name of this machine.
        trusted_proxy: addresses or networks whose X-Forwarded-For is trusted.
        store: folder for usage and glossaries; by default next to `keys`, and without keys in memory only.
        url_prefix: path under which a proxy publishes the server, as `/translate`; requests may have it or not.
    """

    host: str = "127.0.0.1"
    keys: Path | None = None
    suggestions: Path | None = None
    allow_origin: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    trusted_proxy: tuple[str, ...] = ()
    store: Path | None = None
    url_prefix: str = ""


class Metrics(Collector):
    """Figures of one server in Prometheus format, in a separate registry. No label contains text sent by a client."""

    def __init__(self, service: Service, characters: Callable[[], dict[str, int]] = dict) -> None:
        """Report the figures of a service, and the translated characters by name of a key."""
        self._service, self._characters, self._registry = service, characters, CollectorRegistry()
        options: dict[str, Any] = {"namespace": "dragoman", "registry": self._registry}
        self._requests = Counter("requests", "Answered requests.", ("route", "status"), **options)
        options["buckets"] = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0)
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
        characters = CounterMetricFamily("dragoman_characters", "Translated characters of a key.", labels=("key",))
        for name, count in self._characters().items():
            characters.add_metric((name,), count)
        yield characters

    def text(self) -> bytes:
        """Return all figures in Prometheus's text format."""
        return generate_latest(self._registry)


class Server:
    """Server state that the routers share. A bad key file, trusted proxy or prefix raises `ConfigError`."""

    def __init__(self, service: Service, settings: ServerSettings) -> None:
        self.service, self.settings, self.metrics = service, settings, Metrics(service, self.characters)
        self.keys = None if settings.keys is None else ApiKeys(settings.keys)
        self.store = open_store(settings.store, settings.keys)
        self.accounts = Accounts(self.store)
        try:
            self.proxies = [ipaddress.ip_network(proxy) for proxy in settings.trusted_proxy]
        except ValueError as error:
            raise ConfigError(f"--trusted-proxy takes an address or a network: {error}") from None
        if not re.fullmatch(r"(/[\w.~-]+)*", settings.url_prefix):
            raise ConfigError(f"--url-prefix takes a path such as /translate, but not {settings.url_prefix}")
        self.rates = Rates(service.limits.requests_a_minute)
        self.places = Places(service.limits.requests)
        self._threads = ThreadPoolExecutor(service.limits.requests, "request")

    def key_of(self, request: Request) -> Key | None:
        """Return the key of an admitted request, or None without keys."""
        return getattr(request.state, "account", None)

    def characters(self) -> dict[str, int]:
        """Return the translated characters of each key, by its name; without keys, of all under an empty name."""
        keys = (None,) if self.keys is None else self.keys.all()
        return {key.name if key else "": sum(self.accounts.days(key).values()) for key in keys}

    def charge(self, request: Request, job: Job, characters: int) -> None:
        """Count characters that a request translates, or refuse them if its key has used up an allowance (429, 456)."""
        over_month = 456 if request.scope["route"].path.startswith(DEEPL) else 429
        self.accounts.charge(self.key_of(request), characters, over_month)
        job.characters += characters

    def is_proxy(self, address: str) -> bool:
        """Return True for the address of a trusted proxy."""
        with suppress(ValueError):
            return any(ipaddress.ip_address(address) in network for network in self.proxies)
        return False

    def key(self, secret: str) -> Key:
        """Return the entry of a key; refuse a missing or a wrong one (403)."""
        if not secret:
            raise Refused(403, "this server needs a key, as the header Authorization: Bearer KEY or as api_key")
        if self.keys is None or (key := self.keys.find(secret)) is None:
            raise Refused(403, "this key is not valid; ask the operator of this server for another one")
        return key

    async def loaded(self) -> None:
        """Wait until the models are loaded, at most `WAIT_SECONDS`."""
        end = time.monotonic() + WAIT_SECONDS
        while not (self.service.is_ready or self.service.is_stopping) and time.monotonic() < end:
            await asyncio.sleep(0.05)

    async def work(self, request: Request, call: Callable[[Job], T], is_watched: bool = True) -> T:
        """Run `call` with a job in a thread and return its result; wait for a place, as in `Places`.


        The body must have been read before. The job is cancelled if the client disconnects, unless it is not watched
        because the work goes on after the response.
        """
        state, key, loop = request.state, self.key_of(request), asyncio.get_running_loop()
        leaving = asyncio.ensure_future(_until_disconnected(request) if is_watched else loop.create_future())
        try:
            self.service.check_ready()
            async with self.places.place(getattr(state, "client", ""), key and key.requests, leaving):
                if is_watched and (connection := getattr(state, "connection", None)):
                    connection.enter(None)
                with self.service.job() as job:
                    job.charge = partial(self.charge, request, job)
                    leaving.add_done_callback(lambda _: job.cancel())
                    try:
                        return await loop.run_in_executor(self._threads, call, job)
                    except Refused as error:
                        if error.status < 499:  # nothing was translated, or not all
                            self.accounts.give_back(key, job.characters)
                        raise
        finally:
            leaving.cancel()  # which cancels the job too, if it is not done

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


def key_in_head(request: Request) -> str | None:
    """Return the key in the header or the address of a request, or None if neither has one."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("bearer", "deepl-auth-key"):
        return key.strip()
    return next((key for name in KEY_FIELDS if (key := request.query_params.get(name))), None)


async def _until_disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
