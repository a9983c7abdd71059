"""What is counted and timed, for Prometheus. Labels are bounded: kinds, verdicts, codes and the names of policies.

Counting is on the way of every review, so it adds plain numbers up and nothing else; they become metrics when somebody
asks. Several processes send theirs to the one that is asked, which adds them up.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from webhooks.auth.client import ANONYMOUS, Client
from webhooks.engine.executor import InlineState
from webhooks.engine.invocation import Result
from webhooks.engine.verdicts import Verdict
from webhooks.errors import ConfigurationError
from webhooks.objects.typed_decoding import fallbacks
from webhooks.observability.metrics import AnyMetric, Counter, Gauge, HistogramData, MetricRegistry
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.audit import AuditEvent
from webhooks.reviews.kinds import CODECS
from webhooks.reviews.outcomes import Allow, Deny

REFUSED = "webhooks_policy_reload_failing"  # the gauge that health speaks of too
_MAX_CALLERS = 100  # that have a label each
_BOUNDS = (0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0)


class MetricsSnapshot(msgspec.Struct):
    """The numbers of one process, by their labels.

    Attributes:
        reviews: answered, by kind of review, verdict and code.
        durations: what reviews took, by kind.
        callers: reviews they sent, by caller.
        policies: what policies took, by policy and outcome or failure.
        audit_events: received, by level and stage.
        in_place: policies that run in place, 1 or 0.
        overrun: threads that policies keep past their deadlines.
        meters: what plugins keep, by name.
        certificates: when those end that it has loaded, in seconds since 1970, by what they are for.
        reload_failures: changes of certificates that could not be taken over.
    """

    reviews: dict[tuple[str, str, int], int] = {}
    durations: dict[str, HistogramData] = {}
    callers: dict[str, int] = {}
    policies: dict[tuple[str, str], HistogramData] = {}
    audit_events: dict[tuple[str, str], int] = {}
    in_place: dict[str, int] = {}
    overrun: dict[str, int] = {}
    meters: dict[str, AnyMetric] = {}
    certificates: dict[str, float] = {}
    reload_failures: int = 0

    def add(self, other: "MetricsSnapshot") -> None:
        """Add what another process counted."""
        for mine, its in (
            (self.reviews, other.reviews),
            (self.callers, other.callers),
            (self.audit_events, other.audit_events),
            (self.in_place, other.in_place),
            (self.overrun, other.overrun),
        ):
            _add(mine, its)
        for kind, buckets in other.durations.items():
            self.durations.setdefault(kind, HistogramData.for_bounds(_BOUNDS)).merge(buckets)
        for key, buckets in other.policies.items():
            self.policies.setdefault(key, HistogramData.for_bounds(_BOUNDS)).merge(buckets)
        for name, meter in other.meters.items():
            self.meters.setdefault(name, msgspec.structs.replace(meter, values={})).merge(meter)  # type: ignore[arg-type]

        for name, end in other.certificates.items():
            self.certificates[name] = min(end, self.certificates.get(name, end))
        self.reload_failures += other.reload_failures

    def settled(self) -> "MetricsSnapshot":
        """What stays true when the process is gone: its counts, not its state."""
        meters: dict[str, AnyMetric] = {
            name: meter for name, meter in self.meters.items() if not isinstance(meter, Gauge)
        }
        return MetricsSnapshot(
            self.reviews,
            self.durations,
            self.callers,
            self.policies,
            self.audit_events,
            meters=meters,
            reload_failures=self.reload_failures,
        )


def _add(mine: dict[Any, int], its: Mapping[Any, int]) -> None:
    for key, count in its.items():
        mine[key] = mine.get(key, 0) + count


class Metrics:
    """The metrics of one process.

    Args:
        meters: what plugins keep.

    Raises:
        ConfigurationError: a plugin's meter has the name of one of ours.
    """

    def __init__(self, meters: MetricRegistry) -> None:
        taken = {family.name for family in _Families(MetricsSnapshot()).collect()} & set(meters.by_name)
        if taken:
            raise ConfigurationError(f"{', '.join(sorted(taken))}: a plugin's metric has a name of the server's own")
        meters.counter(
            "webhooks_typed_decoding_fallbacks",
            "Objects that were decoded completely because of an unknown field, by kind.",
            ("kind",),
            fallbacks,
        )
        kinds = {codec.kind for codec in CODECS.values()}
        self.tally = MetricsSnapshot(
            durations={kind: HistogramData.for_bounds(_BOUNDS) for kind in kinds}, meters=meters.by_name
        )
        self._observers: dict[tuple[AnyPolicy, type], HistogramData] = {}
        self._callers: dict[Client, str] = {}

    def record(
        self, kind: str, verdict: str, code: int, client: Client, results: Iterable[Result], seconds: float
    ) -> None:
        """Count a review, with who sent it, what came of its policies, and the seconds it took."""
        if client is not ANONYMOUS:
            name = self._callers.get(client) or self._name(client)
            self.tally.callers[name] = self.tally.callers.get(name, 0) + 1
        reviews, key = self.tally.reviews, (kind, verdict, code)
        reviews[key] = reviews.get(key, 0) + 1
        durations = self.tally.durations[kind]
        durations.counts[bisect_left(_BOUNDS, seconds)] += 1
        durations.sum += seconds
        observers = self._observers
        for result in results:
            came, took = type(result.outcome or result.failure), result.seconds
            durations = observers.get((result.policy, came)) or self._observer(result.policy, came)
            durations.counts[bisect_left(_BOUNDS, took)] += 1
            durations.sum += took

    def count(self, kind: str, verdict: str, code: int) -> None:
        """Count a review."""
        reviews = self.tally.reviews
        key = (kind, verdict, code)
        reviews[key] = reviews.get(key, 0) + 1

    def count_audit_events(self, events: Iterable[AuditEvent]) -> None:
        """Count audit events."""
        counts = self.tally.audit_events
        for event in events:
            key = (event.level, event.stage)
            counts[key] = counts.get(key, 0) + 1

    def paced(self, policy: str, pace: InlineState) -> None:
        """Note how a policy is run from now on."""
        self.tally.in_place[policy] = int(pace.is_inline)
        self.tally.overrun[policy] = pace.overrun

    def forget(self, policies: Iterable[AnyPolicy], others: Iterable[AnyPolicy]) -> None:
        """Keep nothing of policies that are asked no more, but what was counted. Others may have their names."""
        gone = set(policies)
        self._observers = {key: value for key, value in self._observers.items() if key[0] not in gone}
        for name in {policy.name for policy in gone} - {policy.name for policy in others}:
            self.tally.in_place.pop(name, None)
            self.tally.overrun.pop(name, None)

    def _name(self, client: Client) -> str:
        """The name that a caller is counted under, which has none of its own where there are too many."""
        if len(self._callers) >= _MAX_CALLERS:
            return "others"
        return self._callers.setdefault(client, str(client))

    def _observer(self, policy: AnyPolicy, outcome: type) -> HistogramData:
        key = (policy.name, outcome.__name__.lower())
        durations = self.tally.policies.setdefault(key, HistogramData.for_bounds(_BOUNDS))
        self._observers[policy, outcome] = durations
        return durations


def page(tally: MetricsSnapshot) -> bytes:
    """Numbers as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(_Families(tally))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, tally: MetricsSnapshot) -> None:
        self._tally = tally

    def collect(self) -> Iterable[Metric]:
        tally = self._tally
        return *_of_reviews(tally), *_of_policies(tally), *_of_certificates(tally), *_of_plugins(tally.meters)


def _of_reviews(tally: MetricsSnapshot) -> Iterator[Metric]:
    reviews = CounterMetricFamily("webhooks_reviews", "Reviews answered.", labels=("kind", "verdict", "code"))
    for (kind, verdict, code), count in list(tally.reviews.items()):
        reviews.add_metric((kind, verdict, str(code)), count)
    yield reviews
    seconds = HistogramMetricFamily(
        "webhooks_review_duration_seconds", "Seconds from the end of a review's body to its answer.", labels=("kind",)
    )
    for kind, durations in list(tally.durations.items()):
        seconds.add_metric((kind,), durations.cumulative(_BOUNDS), durations.sum)
    yield seconds
    callers = CounterMetricFamily("webhooks_client_reviews", "Reviews by who sent them.", labels=("client",))
    for client, count in list(tally.callers.items()):
        callers.add_metric((client,), count)
    yield callers
    events = CounterMetricFamily("webhooks_audit_events", "Audit events received.", labels=("level", "stage"))
    for labels, count in list(tally.audit_events.items()):
        events.add_metric(labels, count)
    yield events


def _of_policies(tally: MetricsSnapshot) -> Iterator[Metric]:
    seconds = HistogramMetricFamily(
        "webhooks_policy_duration_seconds",
        "Seconds that policies took, by their outcome: its name, or the name of the failure.",
        labels=("policy", "outcome"),
    )
    for labels, durations in list(tally.policies.items()):
        seconds.add_metric(labels, durations.cumulative(_BOUNDS), durations.sum)
    yield seconds
    in_place = GaugeMetricFamily(
        "webhooks_policy_inline",
        "In how many processes a def policy runs in place, having shown itself quick, and not in a thread.",
        labels=("policy",),
    )
    overrun = GaugeMetricFamily(
        "webhooks_policy_overrun_threads", "Threads that a policy keeps past its deadlines.", labels=("policy",)
    )
    for family, counts in ((in_place, tally.in_place), (overrun, tally.overrun)):
        for policy, count in list(counts.items()):
            family.add_metric((policy,), count)
        yield family


def _of_certificates(tally: MetricsSnapshot) -> Iterator[Metric]:
    ends = GaugeMetricFamily(
        "webhooks_certificate_expiry_timestamp_seconds",
        "When certificates end, in seconds since 1970: of several, the one that ends first.",
        labels=("certificate",),
    )
    for name, end in list(tally.certificates.items()):
        ends.add_metric((name,), end)
    yield ends
    yield CounterMetricFamily(
        "webhooks_certificate_reload_failures",
        "Changes of certificate files that could not be taken over, in each process.",
        value=tally.reload_failures,
    )


def _of_plugins(meters: Mapping[str, AnyMetric]) -> Iterator[Metric]:
    for name, meter in list(meters.items()):
        if isinstance(meter, Counter | Gauge):
            kind = CounterMetricFamily if isinstance(meter, Counter) else GaugeMetricFamily
            numbers = kind(name, meter.documentation, labels=meter.labels)
            for labels, value in list(meter.values.items()):
                numbers.add_metric(labels, value)
            yield numbers
        else:
            histogram = HistogramMetricFamily(name, meter.documentation, labels=meter.labels)
            for labels, buckets in list(meter.values.items()):
                histogram.add_metric(labels, buckets.cumulative(meter.bounds), buckets.sum)
            yield histogram


def summary(verdict: Verdict[Any]) -> tuple[str, int]:
    """What a verdict is called, and the code that goes with it."""
    outcome = verdict.outcome
    if type(outcome) is Allow:
        return ("allow" if verdict.patch is None else "patch"), 200
    if outcome is None:
        return "failed", 500
    return type(outcome).__name__.lower(), outcome.code if isinstance(outcome, Deny) else 200
