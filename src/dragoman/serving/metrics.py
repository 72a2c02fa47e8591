"""What a server counts and times, in the form that Prometheus reads. No label holds what a client sent."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dragoman.serving.service import Service


class Metrics(Collector):
    """The figures of one server, in a registry of its own."""

    def __init__(self, service: Service) -> None:
        self._service, self._registry = service, CollectorRegistry()
        made = {"namespace": "dragoman", "registry": self._registry}
        self._requests = Counter("requests", "Requests that were answered.", ("route", "status"), **made)
        self._seconds = Histogram("request_seconds", "Time to the end of an answer.", ("route",), **made)
        self._first = Histogram("first_answer_seconds", "Time to the first bytes of what a client waits for.", **made)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def answered(self, route: str, status: int, seconds: float, first: float | None) -> None:
        """Counts a request that took so many seconds, and so many until the first bytes of a good answer."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if first is not None:
            self._first.observe(first)

    def collect(self) -> Iterator[Metric]:
        """The figures that the service has anyway; they are read when they are asked for."""
        service = self._service
        searches = [model.search for model in service.models if model.search is not None]
        for name, meaning, value in (
            ("ready", "Whether requests are answered.", service.is_ready),
            ("under_way", "Requests under way.", service.under_way),
            ("sentences", "Sentences that wait or are being translated.", sum(each.waiting for each in searches)),
        ):
            yield GaugeMetricFamily(f"dragoman_{name}", meaning, value)
        tokens, replaced = sum(each.tokens for each in searches), sum(each.replaced for each in searches)
        yield CounterMetricFamily("dragoman_tokens", "Tokens that the searches wrote.", tokens)
        yield CounterMetricFamily("dragoman_searches_replaced", "Searches that broke and began anew.", replaced)

    def text(self) -> bytes:
        """All figures, as Prometheus reads them."""
        return generate_latest(self._registry)
