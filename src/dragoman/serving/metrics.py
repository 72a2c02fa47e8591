"""What a server counts and times, in the form that Prometheus reads. No label holds what a client sent."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dragoman.serving.service import Service

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The figures of one server, in a registry of its own."""

    def __init__(self, service: Service) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "dragoman_requests", "Requests that were answered.", ("route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "dragoman_request_seconds", "Time to the end of an answer.", ("route",), buckets=SECONDS, registry=registry
        )
        self._first = Histogram(
            "dragoman_first_answer_seconds",
            "Time to the first bytes of a good answer; the first piece of a stream.",
            ("route",),
            buckets=SECONDS,
            registry=registry,
        )
        registry.register(_OfService(service))
        ProcessCollector(registry=registry)

    def answered(self, route: str, status: int, seconds: float, first: float | None) -> None:
        """Counts a request, which took so many seconds, and its first bytes so many."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if first is not None and status < 400:
            self._first.labels(route).observe(first)

    def text(self) -> bytes:
        """All figures, as Prometheus reads them."""
        return generate_latest(self._registry)


class _OfService(Collector):
    """Figures that the service has anyway. They are read when they are asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        service = self._service
        searches = [model.search for model in service.models if model.search is not None]
        yield GaugeMetricFamily("dragoman_ready", "Whether requests are answered.", service.is_ready)
        yield GaugeMetricFamily("dragoman_under_way", "Requests under way.", service.under_way)
        waiting = sum(search.waiting for search in searches)
        yield GaugeMetricFamily("dragoman_sentences", "Sentences that wait or are being translated.", waiting)
        tokens = sum(search.tokens for search in searches)
        yield CounterMetricFamily("dragoman_tokens", "Tokens that the searches wrote.", tokens)
        replaced = sum(search.replaced for search in searches)
        yield CounterMetricFamily("dragoman_searches_replaced", "Searches that broke and began anew.", replaced)
