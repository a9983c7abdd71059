"""Counters, gauges and histograms."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import AnyMetric, Counter, Gauge, Histogram, HistogramData, MetricRegistry

THREADS = 8
CALLS = 2_000


def test_a_counter_counts_by_its_labels() -> None:
    counter = MetricRegistry().counter("webhooks_decisions", "Decisions.", ("type", "outcome"))
    for labels in (("User", "allow"), ("User", "allow"), ("Server", "deny")):
        counter.add(*labels)
    counter.add("Server", "deny", amount=2.5)
    assert counter.values == {("User", "allow"): 2, ("Server", "deny"): 3.5}


def test_a_counter_may_share_the_values_of_another_module() -> None:
    values: dict[tuple[str, ...], float] = {("Pod",): 0.0}
    counter = MetricRegistry().counter("webhooks_fallbacks", "Fallbacks.", ("kind",), values)
    values["Pod",] += 1
    assert counter.values == {("Pod",): 1}


def test_a_gauge_has_its_last_value() -> None:
    gauge = MetricRegistry().gauge("webhooks_keys", "Keys.")
    gauge.set(3)
    gauge.set(2)
    assert gauge.values == {(): 2}


def test_a_histogram_counts_by_bounds() -> None:
    histogram = MetricRegistry().histogram("webhooks_seconds", "Seconds.", [0.5, 1, 2], ("type",))
    for value in (0, 0.5, 0.6, 3, 4):
        histogram.observe(value, "User")
    assert histogram.values == {("User",): HistogramData([2, 1, 0, 2], 8.1)}
    cumulative = histogram.values["User",].cumulative(histogram.bounds)
    assert cumulative == [("0.5", 2.0), ("1.0", 3.0), ("2.0", 3.0), ("+Inf", 5.0)]


Use = Callable[..., None]
USES: dict[str, Callable[[MetricRegistry], Use]] = {
    "counter": lambda registry: registry.counter("webhooks_c", "C.", ("type",)).add,
    "gauge": lambda registry: lambda *labels: registry.gauge("webhooks_g", "G.", ("type",)).set(1, *labels),
    "histogram": lambda registry: (
        lambda *labels: registry.histogram("webhooks_h", "H.", (1,), ("type",)).observe(1, *labels)
    ),
}


@pytest.mark.parametrize("kind", USES)
@pytest.mark.parametrize("labels", [(), ("a", "b"), (1,), (None,)])
def test_the_labels_of_a_call_must_fit(kind: str, labels: tuple[Any, ...]) -> None:
    """Otherwise, the process that sums the metrics could not decode them."""
    registry = MetricRegistry()
    use = USES[kind](registry)
    with pytest.raises(TypeError, match="must be a string for each label"):
        use(*labels)
    use("User")
    assert [list(metric.values) for metric in registry.by_name.values()] == [[("User",)]]


@contextmanager
def switching() -> Iterator[None]:
    """Switch between threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_threads_lose_no_increment() -> None:
    registry = MetricRegistry()
    counter = registry.counter("webhooks_c", "C.", ("type",))
    histogram = registry.histogram("webhooks_h", "H.", (1,), ("type",))
    labels = [str(number) for number in range(CALLS) for _ in range(2)]  # each label is new to all threads at once

    def count() -> None:
        for label in labels:
            counter.add(label)
            histogram.observe(1, label)

    threads = [threading.Thread(target=count) for _ in range(THREADS)]
    with switching():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert set(counter.values.values()) == {2.0 * THREADS}
    assert {tuple(data.counts) for data in histogram.values.values()} == {(2 * THREADS, 0)}


# Names.


def test_the_same_name_returns_the_same_metric() -> None:
    registry = MetricRegistry()
    assert registry.counter("webhooks_c", "C.", ("a",)) is registry.counter("webhooks_c_total", "The same.", ("a",))
    assert registry.gauge("webhooks_g", "G.") is registry.gauge("webhooks_g", "G.")
    assert registry.histogram("webhooks_h", "H.", [1, 2]) is registry.histogram("webhooks_h", "H.", (1.0, 2.0))
    assert list(registry.by_name) == ["webhooks_c", "webhooks_g", "webhooks_h"]


@pytest.mark.parametrize(
    "register",
    [
        lambda registry: registry.counter("webhooks_x", "X.", ("a", "b")),
        lambda registry: registry.counter("webhooks_x", "X."),
        lambda registry: registry.counter("webhooks_x_total", "X.", ("b",)),
        lambda registry: registry.gauge("webhooks_x", "X.", ("a",)),
        lambda registry: registry.histogram("webhooks_x", "X.", (1,), ("a",)),
        lambda registry: registry.histogram("webhooks_h", "H.", (1, 3)),
    ],
)
def test_a_name_cannot_be_used_for_another_metric(register: Callable[[MetricRegistry], AnyMetric]) -> None:
    registry = MetricRegistry()
    registry.counter("webhooks_x", "X.", ("a",))
    registry.histogram("webhooks_h", "H.", (1, 2))
    with pytest.raises(ConfigurationError, match=r"webhooks_[xh]: two metrics have this name: a (counter|histogram) "):
        register(registry)


@pytest.mark.parametrize(
    "name", ["limits", "", "webhooks_", "webhooks", "webhooks_a b", "webhooks_A", "webhooks_a\n", "xwebhooks_a"]
)
def test_invalid_names_are_rejected(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a metric name"):
        MetricRegistry().counter(name, "A counter.")


@pytest.mark.parametrize("label", ["", "a-b", "1", "__a", "le", "a\n"])
def test_invalid_label_names_are_rejected(label: str) -> None:
    with pytest.raises(ConfigurationError, match="webhooks_a: invalid label names"):
        MetricRegistry().counter("webhooks_a", "A counter.", ("good", label))


@pytest.mark.parametrize("bounds", [(), (1, 1), (2, 1), (1, float("inf")), (float("nan"), 1)])
def test_bounds_must_rise(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ConfigurationError, match="webhooks_a: the bounds of a histogram must be rising numbers"):
        MetricRegistry().histogram("webhooks_a", "A histogram.", bounds)


# Several processes.

CALL_LISTS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5)))


def record(calls: list[tuple[str, int]]) -> MetricRegistry:
    registry = MetricRegistry()
    counter = registry.counter("webhooks_c", "C.", ("type",))
    gauge = registry.gauge("webhooks_g", "G.", ("type",))
    histogram = registry.histogram("webhooks_h", "H.", (1, 3), ("type",))
    for label, number in calls:
        counter.add(label, amount=number)
        gauge.set(number, label)
        histogram.observe(number, label)
    return registry


@given(CALL_LISTS, CALL_LISTS)
def test_merged_metrics_equal_those_of_one_process(first: list[tuple[str, int]], second: list[tuple[str, int]]) -> None:
    one, other, both = record(first).by_name, record(second).by_name, record(first + second).by_name
    gauges = {label: dict(first).get(label, 0) + dict(second).get(label, 0) for label, _ in first + second}
    for name, metric in one.items():
        metric.merge(other[name])  # type: ignore[arg-type]
    assert one["webhooks_c"] == both["webhooks_c"]
    assert one["webhooks_h"] == both["webhooks_h"]
    assert one["webhooks_g"].values == {(label,): value for label, value in gauges.items()}


@given(CALL_LISTS)
def test_metrics_survive_encoding(calls: list[tuple[str, int]]) -> None:
    metrics = record(calls).by_name
    metrics["webhooks_none"] = Counter("Without labels.", (), {(): 1.0})
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(metrics), type=dict[str, AnyMetric]) == metrics
    assert {type(metric) for metric in metrics.values()} == {Counter, Gauge, Histogram}
