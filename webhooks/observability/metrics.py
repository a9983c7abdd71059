"""Counters, gauges and histograms: plain numbers by labels, which are summed over processes.

`webhooks.app` exposes them. Reviews are counted on the hot path, and policies in threads count too: a lock, which is
nearly always free, keeps the numbers exact. It is acquired without ``with``, which would double its cost.
"""

import math
import re
import threading
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias, TypeVar

import msgspec

from webhooks.errors import ConfigurationError

_lock = threading.Lock()

_NAME = re.compile(r"webhooks_[a-z0-9_]*[a-z0-9]")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_RESERVED_LABEL = "le"  # the label of the buckets of a histogram

Labels: TypeAlias = tuple[str, ...]


class HistogramData(msgspec.Struct):
    """The values of a histogram for one set of labels.

    Attributes:
        counts: the number of values up to each bound and above the previous one; the last: above all bounds.
        sum: the sum of the values.
    """

    counts: list[int]
    sum: float = 0.0

    @classmethod
    def for_bounds(cls, bounds: Sequence[float]) -> "HistogramData":
        """Create empty data for these bounds."""
        return cls([0] * (len(bounds) + 1))

    def merge(self, other: "HistogramData") -> None:
        """Add the values of another process."""
        self.counts = [own + others for own, others in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    def cumulative(self, bounds: Sequence[float]) -> list[tuple[str, float]]:
        """Return the cumulative buckets of Prometheus: each bound, and the number of values up to it."""
        total, buckets = 0, []
        for bound, count in zip((*map(str, bounds), "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets


class _Metric(msgspec.Struct, tag=True):
    """Base class of the metrics.

    Attributes:
        documentation: the help text.
        labels: the names of the labels.
    """

    documentation: str
    labels: Labels

    def _check_labels(self, values: Labels) -> Labels:
        """Check label values that are new."""
        if len(values) != len(self.labels) or not all(type(value) is str for value in values):
            raise TypeError(
                f"must be a string for each label ({', '.join(self.labels) or 'no labels'}), not {values!r}"
            )
        return values


class Counter(_Metric, tag="counter"):
    """A number that only increases.

    Attributes:
        values: the number by label values.
    """

    values: dict[Labels, float] = {}

    def add(self, *labels: str, amount: float = 1) -> None:
        """Increase the number. Can be called from any thread.

        Args:
            labels: the label values. Clients must not be able to choose them freely: each combination is kept forever.
            amount: how much to add; not negative.

        Raises:
            TypeError: the number of label values is wrong, or one is not a string.
        """
        _lock.acquire()
        try:
            self.values[labels] += amount
        except KeyError:
            self.values[self._check_labels(labels)] = 0.0 + amount
        finally:
            _lock.release()

    def merge(self, other: "Counter") -> None:
        """Add the numbers of the same counter in another process."""
        for labels, value in other.values.items():
            self.values[labels] = self.values.get(labels, 0.0) + value


class Gauge(_Metric, tag="gauge"):
    """A number that can increase and decrease. With several processes, the sum is exposed.

    Attributes:
        values: the number by label values.
    """

    values: dict[Labels, float] = {}

    def set(self, value: float, *labels: str) -> None:
        """Set the number. Can be called from any thread.

        Raises:
            TypeError: the number of label values is wrong, or one is not a string.
        """
        if labels not in self.values:
            self._check_labels(labels)
        self.values[labels] = 0.0 + value

    def merge(self, other: "Gauge") -> None:
        """Add the numbers of the same gauge in another process."""
        for labels, value in other.values.items():
            self.values[labels] = self.values.get(labels, 0.0) + value


class Histogram(_Metric, tag="histogram"):
    """Counts values by bounds.

    Attributes:
        bounds: the upper bounds, in rising order; infinity is always added.
        values: the data by label values.
    """

    bounds: tuple[float, ...]
    values: dict[Labels, HistogramData] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count a value, such as a duration in seconds. Can be called from any thread.

        Raises:
            TypeError: the number of label values is wrong, or one is not a string.
        """
        index = bisect_left(self.bounds, value)
        _lock.acquire()
        try:
            data = self.values.get(labels)
            if data is None:
                data = self.values[self._check_labels(labels)] = HistogramData.for_bounds(self.bounds)
            data.counts[index] += 1
            data.sum += value
        finally:
            _lock.release()

    def merge(self, other: "Histogram") -> None:
        """Add the values of the same histogram in another process."""
        for labels, data in other.values.items():
            self.values.setdefault(labels, HistogramData.for_bounds(self.bounds)).merge(data)


AnyMetric: TypeAlias = Counter | Gauge | Histogram
M = TypeVar("M", Counter, Gauge, Histogram)


class MetricRegistry:
    """The metrics of a process. All names start with ``webhooks_``.

    A second call with the same name and labels returns the same metric.

    Attributes:
        by_name: the metrics by name; counters without ``_total``.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, AnyMetric] = {}

    def counter(
        self, name: str, documentation: str, labels: Labels = (), values: dict[Labels, float] | None = None
    ) -> Counter:
        """Return the counter of that name; create it if there is none.

        Args:
            name: the name, with or without ``_total``. Prometheus gets it with ``_total``.
            documentation: the help text.
            labels: the names of the labels.
            values: the values by label values, if another module counts in a dict of its own.

        Raises:
            ConfigurationError: the name or a label is invalid, or another metric has the name.
        """
        if values is None:
            # Without labels it starts at 0: Prometheus sees no increase if a series starts at 1.
            values = {} if labels else {(): 0.0}
        return self._register(name.removesuffix("_total"), Counter(documentation, labels, values))

    def gauge(self, name: str, documentation: str, labels: Labels = ()) -> Gauge:
        """Return the gauge of that name; create it if there is none. Its sum over processes must make sense.

        Raises:
            ConfigurationError: see `counter`.
        """
        return self._register(name, Gauge(documentation, labels))

    def histogram(self, name: str, documentation: str, bounds: Sequence[float], labels: Labels = ()) -> Histogram:
        """Return the histogram of that name; create it if there is none.

        Raises:
            ConfigurationError: see `counter`; or the bounds are empty, infinite or not in rising order.
        """
        is_rising = all(low < high for low, high in pairwise(bounds))
        if not (bounds and is_rising and all(map(math.isfinite, bounds))):
            raise ConfigurationError(f"{name}: the bounds of a histogram must be rising numbers, not {list(bounds)}")
        return self._register(name, Histogram(documentation, labels, tuple(map(float, bounds))))

    def _register(self, name: str, metric: M) -> M:
        if not _NAME.fullmatch(name):
            raise ConfigurationError(f"{name!r} is not a metric name: use webhooks_ followed by a-z, 0-9 and _")
        if not all(_LABEL.fullmatch(label) and label != _RESERVED_LABEL for label in metric.labels):
            raise ConfigurationError(f"{name}: invalid label names: {', '.join(map(repr, metric.labels))}")
        known = self.by_name.setdefault(name, metric)
        if not _is_compatible(known, metric):
            raise ConfigurationError(f"{name}: two metrics have this name: {_describe(known)}; {_describe(metric)}")
        return known  # type: ignore[return-value]  # it has the same type


def _is_compatible(one: AnyMetric, other: AnyMetric) -> bool:
    bounds = [metric.bounds for metric in (one, other) if isinstance(metric, Histogram)]
    return type(one) is type(other) and one.labels == other.labels and bounds[:1] == bounds[1:]


def _describe(metric: AnyMetric) -> str:
    labels = f"the labels {', '.join(metric.labels)}" if metric.labels else "no labels"
    bounds = f" and the bounds {metric.bounds}" if isinstance(metric, Histogram) else ""
    return f"a {type(metric).__name__.lower()} with {labels}{bounds}"
