"""Counters, gauges and histograms: plain numbers by their labels, which are added up over processes.

`webhooks.app.review_metrics` exposes them. Counting is on the way of reviews, and policies that
run in threads count too: a lock that is nearly always free keeps every number exact. It is taken without a ``with``,
which would cost as much again as the lock.
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
_RESERVED = "le"  # the label that histograms have of themselves

Labels: TypeAlias = tuple[str, ...]


class Buckets(msgspec.Struct):
    """Values by the bounds they lie under, and their sum.

    Attributes:
        counts: how many lay at or under each bound, but above the one before; the last: above all.
        sum: of the values.
    """

    counts: list[int]
    sum: float = 0.0

    @classmethod
    def under(cls, bounds: Sequence[float]) -> "Buckets":
        """Buckets for so many bounds, with nothing in them."""
        return cls([0] * (len(bounds) + 1))

    def add(self, other: "Buckets") -> None:
        """Count all that another has counted."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    def cumulative(self, bounds: Sequence[float]) -> list[tuple[str, float]]:
        """The buckets as Prometheus writes them: each holds those under it too."""
        total, found = 0, []
        for bound, count in zip((*map(str, bounds), "+Inf"), self.counts, strict=True):
            total += count
            found.append((bound, float(total)))
        return found


class _Meter(msgspec.Struct, tag=True):
    """What every meter is told about.

    Attributes:
        documentation: what it counts, for people.
        labels: the names of its labels.
    """

    documentation: str
    labels: Labels

    def _checked(self, values: Labels) -> Labels:
        """Values of labels that are seen for the first time."""
        if len(values) != len(self.labels) or not all(type(value) is str for value in values):
            raise TypeError(f"these labels take a text each: {', '.join(self.labels) or 'none'}; not {values!r}")
        return values


class Counter(_Meter, tag="counter"):
    """A number that only grows.

    Attributes:
        values: by the values of the labels.
    """

    values: dict[Labels, float] = {}

    def add(self, *labels: str, amount: float = 1) -> None:
        """Count one, or as many as the amount says; from any thread.

        Args:
            labels: their values; never ones that callers choose freely, since each set of them is kept for good.
            amount: not negative.

        Raises:
            TypeError: not as many labels as the counter has.
        """
        _lock.acquire()
        try:
            self.values[labels] += amount
        except KeyError:
            self.values[self._checked(labels)] = 0.0 + amount
        finally:
            _lock.release()

    def merge(self, other: "Counter") -> None:
        """Count all that the same counter of another process has counted."""
        for labels, value in other.values.items():
            self.values[labels] = self.values.get(labels, 0.0) + value


class Gauge(_Meter, tag="gauge"):
    """A number that goes up and down. Several processes tell the sum of theirs.

    Attributes:
        values: by the values of the labels.
    """

    values: dict[Labels, float] = {}

    def set(self, value: float, *labels: str) -> None:
        """Say what it is now; from any thread.

        Raises:
            TypeError: not as many labels as the gauge has.
        """
        if labels not in self.values:
            self._checked(labels)
        self.values[labels] = 0.0 + value

    def merge(self, other: "Gauge") -> None:
        """Add what the same gauge of another process is."""
        for labels, value in other.values.items():
            self.values[labels] = self.values.get(labels, 0.0) + value


class Histogram(_Meter, tag="histogram"):
    """How many values lay under each of some bounds.

    Attributes:
        bounds: the bounds, rising; infinity is always one more.
        values: by the values of the labels.
    """

    bounds: tuple[float, ...]
    values: dict[Labels, Buckets] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count a value, such as the seconds that something took; from any thread.

        Raises:
            TypeError: not as many labels as the histogram has.
        """
        place = bisect_left(self.bounds, value)
        _lock.acquire()
        try:
            buckets = self.values.get(labels)
            if buckets is None:
                buckets = self.values[self._checked(labels)] = Buckets.under(self.bounds)
            buckets.counts[place] += 1
            buckets.sum += value
        finally:
            _lock.release()

    def merge(self, other: "Histogram") -> None:
        """Count all that the same histogram of another process has counted."""
        for labels, buckets in other.values.items():
            self.values.setdefault(labels, Buckets.under(self.bounds)).add(buckets)


Meter: TypeAlias = Counter | Gauge | Histogram
M = TypeVar("M", Counter, Gauge, Histogram)


class MetricRegistry:
    """The meters of one process, each under a name of its own that begins with ``webhooks_``.

    Asking for one a second time, with the same labels, gives the same one: those who share a name count together.

    Attributes:
        by_name: all of them.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Meter] = {}

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
        return self._meter(name.removesuffix("_total"), Counter(documentation, labels, values))

    def gauge(self, name: str, documentation: str, labels: Labels = ()) -> Gauge:
        """A gauge, for what adds up over processes.

        Raises:
            ConfigurationError: as for `counter`.
        """
        return self._meter(name, Gauge(documentation, labels))

    def histogram(self, name: str, documentation: str, bounds: Sequence[float], labels: Labels = ()) -> Histogram:
        """A histogram with these bounds, which rise.

        Raises:
            ConfigurationError: as for `counter`; or the bounds do not rise.
        """
        rising = all(low < high for low, high in pairwise(bounds))
        if not (bounds and rising and all(map(math.isfinite, bounds))):
            raise ConfigurationError(f"{name}: the bounds of a histogram are numbers that rise, not {list(bounds)}")
        return self._meter(name, Histogram(documentation, labels, tuple(map(float, bounds))))

    def _meter(self, name: str, meter: M) -> M:
        if not _NAME.fullmatch(name):
            raise ConfigurationError(f"{name!r} is no name for a metric: webhooks_ and then a-z, 0-9 and _")
        if not all(_LABEL.fullmatch(label) and label != _RESERVED for label in meter.labels):
            raise ConfigurationError(f"{name}: no labels of a metric: {', '.join(map(repr, meter.labels))}")
        known = self.by_name.setdefault(name, meter)
        if not _alike(known, meter):
            raise ConfigurationError(f"{name}: two metrics have this name: {_described(known)}; {_described(meter)}")
        return known  # type: ignore[return-value]  # it is of the same type


def _alike(one: Meter, other: Meter) -> bool:
    bounds = [meter.bounds for meter in (one, other) if isinstance(meter, Histogram)]
    return type(one) is type(other) and one.labels == other.labels and bounds[:1] == bounds[1:]


def _described(meter: Meter) -> str:
    labels = f"the labels {', '.join(meter.labels)}" if meter.labels else "no labels"
    bounds = f" and the bounds {meter.bounds}" if isinstance(meter, Histogram) else ""
    return f"a {type(meter).__name__.lower()} with {labels}{bounds}"
