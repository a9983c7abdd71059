"""Renders metrics in the Prometheus text format."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from webhooks.observability.metrics import AnyMetric, Counter, Gauge

if TYPE_CHECKING:
    from webhooks.app.review_metrics import MetricsSnapshot

# The upper bounds of histograms, in seconds.
BOUNDS = (0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0)


def render(snapshot: "MetricsSnapshot") -> bytes:
    """Render a page of metrics. Takes milliseconds."""
    registry = CollectorRegistry()
    registry.register(_SnapshotCollector(snapshot))
    return generate_latest(registry)


def collect(snapshot: "MetricsSnapshot") -> Iterator[Metric]:
    """Yield all metrics. The snapshot may change in the meantime."""
    yield from _collect_reviews(snapshot)
    yield from _collect_policies(snapshot)
    yield from _collect_certificates(snapshot)
    yield from _collect_registered(snapshot.registered)


class _SnapshotCollector(Collector):
    def __init__(self, snapshot: "MetricsSnapshot") -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterable[Metric]:
        return collect(self._snapshot)


def _collect_reviews(snapshot: "MetricsSnapshot") -> Iterator[Metric]:
    reviews = CounterMetricFamily("webhooks_reviews", "Reviews answered.", labels=("kind", "verdict", "code"))
    for (kind, verdict, code), count in list(snapshot.reviews.items()):
        reviews.add_metric((kind, verdict, str(code)), count)
    yield reviews
    seconds = HistogramMetricFamily(
        "webhooks_review_duration_seconds", "Seconds from the end of a request to its response.", labels=("kind",)
    )
    for kind, durations in list(snapshot.durations.items()):
        seconds.add_metric((kind,), durations.cumulative(BOUNDS), durations.sum)
    yield seconds
    clients = CounterMetricFamily("webhooks_client_reviews", "Reviews by client.", labels=("client",))
    for client, count in list(snapshot.clients.items()):
        clients.add_metric((client,), count)
    yield clients
    events = CounterMetricFamily("webhooks_audit_events", "Audit events received.", labels=("level", "stage"))
    for labels, count in list(snapshot.audit_events.items()):
        events.add_metric(labels, count)
    yield events


def _collect_policies(snapshot: "MetricsSnapshot") -> Iterator[Metric]:
    seconds = HistogramMetricFamily(
        "webhooks_policy_duration_seconds",
        "Seconds of a call of a policy, by its outcome or its failure.",
        labels=("policy", "outcome"),
    )
    for labels, durations in list(snapshot.policies.items()):
        seconds.add_metric(labels, durations.cumulative(BOUNDS), durations.sum)
    yield seconds
    inline = GaugeMetricFamily(
        "webhooks_policy_inline",
        "Processes that call a policy inline, because it is fast, and not in a thread.",
        labels=("policy",),
    )
    overrun = GaugeMetricFamily(
        "webhooks_policy_overrun_threads", "Threads that a policy uses past its deadline.", labels=("policy",)
    )
    for family, counts in ((inline, snapshot.inline), (overrun, snapshot.overrun_threads)):
        for policy, count in list(counts.items()):
            family.add_metric((policy,), count)
        yield family


def _collect_certificates(snapshot: "MetricsSnapshot") -> Iterator[Metric]:
    expiry = GaugeMetricFamily(
        "webhooks_certificate_expiry_timestamp_seconds",
        "When a certificate expires, in seconds since 1970; the first of several.",
        labels=("certificate",),
    )
    for name, seconds in list(snapshot.certificate_expiry.items()):
        expiry.add_metric((name,), seconds)
    yield expiry
    yield CounterMetricFamily(
        "webhooks_certificate_reload_failures",
        "Changes of certificate files that could not be loaded.",
        value=snapshot.certificate_reload_failures,
    )


def _collect_registered(registered: Mapping[str, AnyMetric]) -> Iterator[Metric]:
    for name, metric in list(registered.items()):
        if isinstance(metric, Counter | Gauge):
            kind = CounterMetricFamily if isinstance(metric, Counter) else GaugeMetricFamily
            family = kind(name, metric.documentation, labels=metric.labels)
            for labels, value in list(metric.values.items()):
                family.add_metric(labels, value)
            yield family
        else:
            histogram = HistogramMetricFamily(name, metric.documentation, labels=metric.labels)
            for labels, buckets in list(metric.values.items()):
                histogram.add_metric(labels, buckets.cumulative(metric.bounds), buckets.sum)
            yield histogram
