"""Counters, gauges and histograms that plugins keep."""

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
from webhooks.observability.metrics import Buckets, Counter, Gauge, Histogram, Meter, MetricRegistry

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


def test_a_gauge_is_what_was_said_last() -> None:
    gauge = MetricRegistry().gauge("webhooks_keys", "Keys.")
    gauge.set(3)
    gauge.set(2)
    assert gauge.values == {(): 2}


def test_a_histogram_counts_by_bounds() -> None:
    histogram = MetricRegistry().histogram("webhooks_seconds", "Seconds.", [0.5, 1, 2], ("type",))
    for value in (0, 0.5, 0.6, 3, 4):
        histogram.observe(value, "User")
    assert histogram.values == {("User",): Buckets([2, 1, 0, 2], 8.1)}
    cumulative = histogram.values["User",].cumulative(histogram.bounds)
    assert cumulative == [("0.5", 2.0), ("1.0", 3.0), ("2.0", 3.0), ("+Inf", 5.0)]


Use = Callable[..., None]
USES: dict[str, Callable[[MetricRegistry], Use]] = {
    "counter": lambda meters: meters.counter("webhooks_c", "C.", ("type",)).add,
    "gauge": lambda meters: lambda *labels: meters.gauge("webhooks_g", "G.", ("type",)).set(1, *labels),
    "histogram": lambda meters: (
        lambda *labels: meters.histogram("webhooks_h", "H.", (1,), ("type",)).observe(1, *labels)
    ),
}


@pytest.mark.parametrize("kind", USES)
@pytest.mark.parametrize("labels", [(), ("a", "b"), (1,), (None,)])
def test_the_labels_of_a_call_must_fit(kind: str, labels: tuple[Any, ...]) -> None:
    """Else the process that adds up could not read what it is told."""
    meters = MetricRegistry()
    use = USES[kind](meters)
    with pytest.raises(TypeError, match="these labels take a text each: type"):
        use(*labels)
    use("User")
    assert [list(meter.values) for meter in meters.by_name.values()] == [[("User",)]]


@contextmanager
def switching() -> Iterator[None]:
    """Threads that take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_threads_lose_no_increment() -> None:
    meters = MetricRegistry()
    counter = meters.counter("webhooks_c", "C.", ("type",))
    histogram = meters.histogram("webhooks_h", "H.", (1,), ("type",))
    labels = [str(number) for number in range(CALLS) for _ in range(2)]  # each is new to all of them at once

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
    assert {tuple(buckets.counts) for buckets in histogram.values.values()} == {(2 * THREADS, 0)}


# Names.


def test_who_asks_for_the_same_counts_together() -> None:
    meters = MetricRegistry()
    assert meters.counter("webhooks_c", "C.", ("a",)) is meters.counter("webhooks_c_total", "The same.", ("a",))
    assert meters.gauge("webhooks_g", "G.") is meters.gauge("webhooks_g", "G.")
    assert meters.histogram("webhooks_h", "H.", [1, 2]) is meters.histogram("webhooks_h", "H.", (1.0, 2.0))
    assert list(meters.by_name) == ["webhooks_c", "webhooks_g", "webhooks_h"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda meters: meters.counter("webhooks_x", "X.", ("a", "b")),
        lambda meters: meters.counter("webhooks_x", "X."),
        lambda meters: meters.counter("webhooks_x_total", "X.", ("b",)),
        lambda meters: meters.gauge("webhooks_x", "X.", ("a",)),
        lambda meters: meters.histogram("webhooks_x", "X.", (1,), ("a",)),
        lambda meters: meters.histogram("webhooks_h", "H.", (1, 3)),
    ],
)
def test_one_name_is_one_meter(ask: Callable[[MetricRegistry], Meter]) -> None:
    meters = MetricRegistry()
    meters.counter("webhooks_x", "X.", ("a",))
    meters.histogram("webhooks_h", "H.", (1, 2))
    with pytest.raises(ConfigurationError, match=r"webhooks_[xh]: two metrics have this name: a (counter|histogram) "):
        ask(meters)


@pytest.mark.parametrize(
    "name", ["limits", "", "webhooks_", "webhooks", "webhooks_a b", "webhooks_A", "webhooks_a\n", "xwebhooks_a"]
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is no name for a metric"):
        MetricRegistry().counter(name, "A counter.")


@pytest.mark.parametrize("label", ["", "a-b", "1", "__a", "le", "a\n"])
def test_labels_that_are_none(label: str) -> None:
    with pytest.raises(ConfigurationError, match="webhooks_a: no labels of a metric"):
        MetricRegistry().counter("webhooks_a", "A counter.", ("good", label))


@pytest.mark.parametrize("bounds", [(), (1, 1), (2, 1), (1, float("inf")), (float("nan"), 1)])
def test_bounds_rise(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ConfigurationError, match="webhooks_a: the bounds of a histogram are numbers that rise"):
        MetricRegistry().histogram("webhooks_a", "A histogram.", bounds)


# Several processes.

calls = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5)))


def counted(given: list[tuple[str, int]]) -> MetricRegistry:
    meters = MetricRegistry()
    counter = meters.counter("webhooks_c", "C.", ("type",))
    gauge = meters.gauge("webhooks_g", "G.", ("type",))
    histogram = meters.histogram("webhooks_h", "H.", (1, 3), ("type",))
    for label, number in given:
        counter.add(label, amount=number)
        gauge.set(number, label)
        histogram.observe(number, label)
    return meters


@given(calls, calls)
def test_what_two_counted_is_what_one_would_have(first: list[tuple[str, int]], second: list[tuple[str, int]]) -> None:
    one, other, both = counted(first).by_name, counted(second).by_name, counted(first + second).by_name
    gauges = {label: dict(first).get(label, 0) + dict(second).get(label, 0) for label, _ in first + second}
    for name, meter in one.items():
        meter.merge(other[name])  # type: ignore[arg-type]
    assert one["webhooks_c"] == both["webhooks_c"]
    assert one["webhooks_h"] == both["webhooks_h"]
    assert one["webhooks_g"].values == {(label,): value for label, value in gauges.items()}


@given(calls)
def test_they_are_told_as_they_are(given: list[tuple[str, int]]) -> None:
    told = counted(given).by_name
    told["webhooks_none"] = Counter("Without labels.", (), {(): 1.0})
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(told), type=dict[str, Meter]) == told
    assert {type(meter) for meter in told.values()} == {Counter, Gauge, Histogram}
