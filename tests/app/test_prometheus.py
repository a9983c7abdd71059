"""The Prometheus text format."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from webhooks.app import prometheus
from webhooks.app.review_metrics import MetricsSnapshot
from webhooks.observability.metrics import Counter, Gauge, Histogram, HistogramData

Labels = tuple[str, ...]


def samples(text: str, name: str, *labels: str) -> dict[Labels, float]:
    """Return the samples of a metric by the values of its labels."""
    result = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {tuple(sample.labels[label] for label in labels): sample.value for sample in result if sample.name == name}


@pytest.mark.parametrize(
    ("snapshot", "line"),
    [
        (
            MetricsSnapshot(reviews={("ImageReview", "deny", 403): 2}),
            'webhooks_reviews_total{code="403",kind="ImageReview",verdict="deny"} 2.0',
        ),
        (MetricsSnapshot(clients={"jane": 3}), 'webhooks_client_reviews_total{client="jane"} 3.0'),
        (
            MetricsSnapshot(audit_events={("Metadata", "Panic"): 1}),
            'webhooks_audit_events_total{level="Metadata",stage="Panic"} 1.0',
        ),
        (MetricsSnapshot(inline={"a": 1}), 'webhooks_policy_inline{policy="a"} 1.0'),
        (MetricsSnapshot(overrun_threads={"a": 4}), 'webhooks_policy_overrun_threads{policy="a"} 4.0'),
        (
            MetricsSnapshot(certificate_expiry={"ca": 5.0}),
            'webhooks_certificate_expiry_timestamp_seconds{certificate="ca"} 5.0',
        ),
        (MetricsSnapshot(certificate_reload_failures=6), "webhooks_certificate_reload_failures_total 6.0"),
        (MetricsSnapshot(registered={"webhooks_a": Counter("A.", (), {(): 7.0})}), "webhooks_a_total 7.0"),
        (MetricsSnapshot(registered={"webhooks_a": Gauge("A.", ("b",), {("c",): 8.0})}), 'webhooks_a{b="c"} 8.0'),
    ],
)
def test_samples(snapshot: MetricsSnapshot, line: str) -> None:
    assert line in prometheus.render(snapshot).decode().splitlines()


@pytest.mark.parametrize(
    ("snapshot", "name", "label"),
    [
        (
            MetricsSnapshot(durations={"a": HistogramData([1, 0, 2] + [0] * 11, 7.5)}),
            "webhooks_review_duration_seconds",
            "kind",
        ),
        (
            MetricsSnapshot(policies={("a", "allow"): HistogramData([1, 0, 2] + [0] * 11, 7.5)}),
            "webhooks_policy_duration_seconds",
            "policy",
        ),
    ],
)
def test_durations(snapshot: MetricsSnapshot, name: str, label: str) -> None:
    text = prometheus.render(snapshot).decode()
    buckets = samples(text, f"{name}_bucket", label, "le")
    assert buckets["a", "1e-05"] == buckets["a", "5e-05"] == 1
    assert buckets["a", "0.0001"] == buckets["a", "+Inf"] == 3
    assert samples(text, f"{name}_sum", label) == {("a",): 7.5}


def test_a_registered_histogram() -> None:
    histogram = Histogram("Seconds.", ("type",), (1, 2.5), {("Server",): HistogramData([1, 1, 1], 6)})
    text = prometheus.render(MetricsSnapshot(registered={"webhooks_seconds": histogram})).decode()
    assert samples(text, "webhooks_seconds_sum", "type") == {("Server",): 6}
    buckets = samples(text, "webhooks_seconds_bucket", "type", "le")
    assert buckets == {("Server", "1"): 1, ("Server", "2.5"): 2, ("Server", "+Inf"): 3}


def test_every_metric_is_documented() -> None:
    families = list(text_string_to_metric_families(prometheus.render(MetricsSnapshot()).decode()))
    assert {family.name for family in families} >= {"webhooks_reviews", "webhooks_policy_duration_seconds"}
    assert all(family.documentation and family.type != "unknown" for family in families)
