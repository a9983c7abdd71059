"""Counts and times reviews. The values of labels come from fixed sets: clients cannot create new ones.

Every review is counted, so counting only adds plain numbers; `webhooks.app.prometheus` renders them on request. Worker
processes send their numbers to their parent, which adds them up.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from webhooks.app import prometheus
from webhooks.app.prometheus import BOUNDS
from webhooks.auth.client import ANONYMOUS, Client
from webhooks.engine.executor import InlineState
from webhooks.engine.invocation import Result
from webhooks.engine.verdicts import Verdict
from webhooks.errors import ConfigurationError
from webhooks.objects.typed_decoding import fallbacks
from webhooks.observability.metrics import AnyMetric, Gauge, HistogramData, MetricRegistry
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.audit import AuditEvent
from webhooks.reviews.kinds import CODECS
from webhooks.reviews.outcomes import Allow, Deny

_MAX_CLIENTS = 100  # clients with a label of their own


class MetricsSnapshot(msgspec.Struct):
    """The metrics of one process, or the sum of several.

    Attributes:
        reviews: the number of reviews by kind, verdict and code.
        durations: the durations of reviews by kind.
        clients: the number of reviews by client.
        policies: the durations of calls by policy and outcome or failure.
        audit_events: the number of audit events by level and stage.
        inline: 1 for each policy that is called inline, else 0.
        overrun_threads: the number of threads that a policy uses past its deadline.
        registered: the metrics of a `MetricRegistry` by name.
        certificate_expiry: when certificates expire, in seconds since 1970, by their purpose.
        certificate_reload_failures: the number of changes of certificate files that could not be loaded.
    """

    reviews: dict[tuple[str, str, int], int] = {}
    durations: dict[str, HistogramData] = {}
    clients: dict[str, int] = {}
    policies: dict[tuple[str, str], HistogramData] = {}
    audit_events: dict[tuple[str, str], int] = {}
    inline: dict[str, int] = {}
    overrun_threads: dict[str, int] = {}
    registered: dict[str, AnyMetric] = {}
    certificate_expiry: dict[str, float] = {}
    certificate_reload_failures: int = 0

    def add(self, other: "MetricsSnapshot") -> None:
        """Add the metrics of another process. Of the expiry of certificates, the earlier one remains."""
        for own, counts in (
            (self.reviews, other.reviews),
            (self.clients, other.clients),
            (self.audit_events, other.audit_events),
            (self.inline, other.inline),
            (self.overrun_threads, other.overrun_threads),
        ):
            _add_counts(own, counts)
        for kind, buckets in other.durations.items():
            self.durations.setdefault(kind, HistogramData.for_bounds(BOUNDS)).merge(buckets)
        for key, buckets in other.policies.items():
            self.policies.setdefault(key, HistogramData.for_bounds(BOUNDS)).merge(buckets)
        for name, metric in other.registered.items():
            empty = msgspec.structs.replace(metric, values={})
            self.registered.setdefault(name, empty).merge(metric)  # type: ignore[arg-type]  # of the same type
        for name, seconds in other.certificate_expiry.items():
            self.certificate_expiry[name] = min(seconds, self.certificate_expiry.get(name, seconds))
        self.certificate_reload_failures += other.certificate_reload_failures

    def without_state(self) -> "MetricsSnapshot":
        """Return the counts only, which remain valid after the process has exited."""
        return MetricsSnapshot(
            self.reviews,
            self.durations,
            self.clients,
            self.policies,
            self.audit_events,
            registered={name: metric for name, metric in self.registered.items() if not isinstance(metric, Gauge)},
            certificate_reload_failures=self.certificate_reload_failures,
        )


def _add_counts(own: dict[Any, int], counts: Mapping[Any, int]) -> None:
    for key, count in counts.items():
        own[key] = own.get(key, 0) + count


class ReviewMetrics:
    """Records the reviews of one process.

    Args:
        metrics: the registry with all other metrics.

    Attributes:
        snapshot: the current numbers.

    Raises:
        ConfigurationError: a registered metric has a reserved name.
    """

    def __init__(self, metrics: MetricRegistry) -> None:
        reserved = {family.name for family in prometheus.collect(MetricsSnapshot())} & set(metrics.by_name)
        if reserved:
            raise ConfigurationError(f"{', '.join(sorted(reserved))}: reserved: a plugin must use another metric name")
        metrics.counter(
            "webhooks_typed_decoding_fallbacks",
            "Objects that were decoded completely because of an unknown field, by kind.",
            ("kind",),
            fallbacks,
        )
        kinds = {codec.kind for codec in CODECS.values()}
        durations = {kind: HistogramData.for_bounds(BOUNDS) for kind in kinds}
        self.snapshot = MetricsSnapshot(durations=durations, registered=metrics.by_name)
        self._call_durations: dict[tuple[AnyPolicy, type], HistogramData] = {}
        self._client_names: dict[Client, str] = {}

    def record(
        self, kind: str, verdict: str, code: int, client: Client, results: Iterable[Result], seconds: float
    ) -> None:
        """Record a review, with its client, the results of its policies, and its duration."""
        snapshot = self.snapshot
        if client is not ANONYMOUS:
            name = self._client_names.get(client) or self._name_client(client)
            snapshot.clients[name] = snapshot.clients.get(name, 0) + 1
        reviews, key = snapshot.reviews, (kind, verdict, code)
        reviews[key] = reviews.get(key, 0) + 1
        durations = snapshot.durations[kind]
        durations.counts[bisect_left(BOUNDS, seconds)] += 1
        durations.sum += seconds
        call_durations = self._call_durations
        for result in results:
            outcome, duration = type(result.outcome or result.failure), result.seconds
            durations = call_durations.get((result.policy, outcome)) or self._add_policy(result.policy, outcome)
            durations.counts[bisect_left(BOUNDS, duration)] += 1
            durations.sum += duration

    def count(self, kind: str, verdict: str, code: int) -> None:
        """Count a review."""
        reviews, key = self.snapshot.reviews, (kind, verdict, code)
        reviews[key] = reviews.get(key, 0) + 1

    def count_audit_events(self, events: Iterable[AuditEvent]) -> None:
        """Count audit events."""
        counts = self.snapshot.audit_events
        for event in events:
            key = (event.level, event.stage)
            counts[key] = counts.get(key, 0) + 1

    def on_mode_change(self, policy: str, state: InlineState) -> None:
        """Record whether a policy is called inline, and its overrun threads."""
        self.snapshot.inline[policy] = int(state.is_inline)
        self.snapshot.overrun_threads[policy] = state.overrun

    def forget(self, removed: Iterable[AnyPolicy], current: Iterable[AnyPolicy]) -> None:
        """Release removed policies, and remove their state, unless a current policy has the same name."""
        policies = set(removed)
        self._call_durations = {key: value for key, value in self._call_durations.items() if key[0] not in policies}
        for name in {policy.name for policy in policies} - {policy.name for policy in current}:
            self.snapshot.inline.pop(name, None)
            self.snapshot.overrun_threads.pop(name, None)

    def _name_client(self, client: Client) -> str:
        """Return the label of a client. After the maximum number of clients, it is ``others``."""
        if len(self._client_names) >= _MAX_CLIENTS:
            return "others"
        return self._client_names.setdefault(client, str(client))

    def _add_policy(self, policy: AnyPolicy, outcome: type) -> HistogramData:
        key = (policy.name, outcome.__name__.lower())
        durations = self.snapshot.policies.setdefault(key, HistogramData.for_bounds(BOUNDS))
        self._call_durations[policy, outcome] = durations
        return durations


def verdict_label(verdict: Verdict[Any]) -> tuple[str, int]:
    """Return the label of a verdict, and its code."""
    outcome = verdict.outcome
    if type(outcome) is Allow:
        return ("allow" if verdict.patch is None else "patch"), 200
    if outcome is None:
        return "failed", 500
    return type(outcome).__name__.lower(), outcome.code if isinstance(outcome, Deny) else 200
