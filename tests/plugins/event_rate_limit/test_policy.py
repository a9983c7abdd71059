"""Tests of the decisions on events."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from webhooks import AdmissionReview, Allow, Decision, Deny, validating
from webhooks.errors import MalformedReview
from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins.event_rate_limit.policy import Limiter, create_local_policy, create_shared_policy
from webhooks.plugins.event_rate_limit.token_bucket import Limit, LimitType, MemoryBudget
from webhooks.reviews import admission_codec
from webhooks.testing import admission

from ...support.api_server import accept_admission
from ...support.builders import AnyPolicy, admission_body, decide, encode_body, encode_response
from ...support.events import Json, core_event, event

SECOND = 10**9
ALL: tuple[LimitType, ...] = ("Server", "Namespace", "User", "SourceAndObject")


def limits(*types: LimitType, qps: int = 1, burst: int = 1, cache_size: int = 4096) -> list[Limit]:
    return [Limit(type_, qps, burst, cache_size) for type_ in types]


def frozen() -> int:
    return 0


class Shared:
    """A budget with asynchronous decisions."""

    def __init__(self, budget: MemoryBudget) -> None:
        self.budget = budget

    async def take(self, keys: Sequence[str]) -> list[int]:
        return self.budget.take(keys)


def in_memory(limits: Sequence[Limit], metrics: MetricRegistry | None = None) -> AnyPolicy:
    metrics = metrics or MetricRegistry()
    return create_local_policy(Limiter(limits, metrics), MemoryBudget(limits, metrics, frozen))


def shared(limits: Sequence[Limit], metrics: MetricRegistry | None = None) -> AnyPolicy:
    metrics = metrics or MetricRegistry()
    return create_shared_policy(Limiter(limits, metrics), Shared(MemoryBudget(limits, metrics, frozen)))


BACKENDS: dict[str, Callable[..., AnyPolicy]] = {"memory": in_memory, "shared": shared}
every_backend = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)


def verdict(policy: AnyPolicy, review: AdmissionReview) -> Decision:
    outcome = decide(review, policy).outcome
    assert isinstance(outcome, Allow | Deny)
    return outcome


def allowed(policy: AnyPolicy, review: AdmissionReview) -> bool:
    return isinstance(verdict(policy, review), Allow)


@every_backend
def test_events_after_a_burst_are_denied(backend: Callable[..., AnyPolicy]) -> None:
    policy = backend(limits("Namespace", burst=3))
    assert [allowed(policy, admission("CREATE", core_event())) for _ in range(5)] == [True] * 3 + [False] * 2


@every_backend
def test_both_groups_and_both_operations_share_a_budget(backend: Callable[..., AnyPolicy]) -> None:
    for type_ in ALL:
        policy = backend(limits(type_, burst=4))
        reviews = [
            admission("CREATE", core_event()),
            admission("UPDATE", core_event(count=2), old_object=core_event()),
            admission("CREATE", event()),
            admission("UPDATE", event("events.svc.io/v1"), old_object=event("events.svc.io/v1")),
            admission("CREATE", event("events.k8s.io/v1beta1")),
        ]
        assert [allowed(policy, review) for review in reviews] == [True] * 4 + [False]


OTHERS = {
    "deleting": admission("DELETE", None, old_object=core_event()),
    "a pod": admission("CREATE", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}),
    "a subresource": admission("UPDATE", core_event(), subresource="status"),
    "events of another group": admission("CREATE", event("example.com/v1")),
    "events of a similar group": admission("CREATE", event("events.k8s.io.example.com/v1")),
    "without a resource": admission("CREATE", {"apiVersion": "v1", "kind": "EventList"}),
}


@every_backend
@pytest.mark.parametrize("review", OTHERS.values(), ids=OTHERS)
def test_other_reviews_are_allowed(backend: Callable[..., AnyPolicy], review: AdmissionReview) -> None:
    policy = backend(limits(*ALL))
    assert all(allowed(policy, review) for _ in range(3))
    assert allowed(policy, admission("CREATE", core_event()))


@every_backend
def test_a_dry_run_takes_no_token_and_is_allowed(backend: Callable[..., AnyPolicy]) -> None:
    policy = backend(limits(*ALL))
    dry = admission("CREATE", core_event(), dry_run=True)
    assert all(allowed(policy, dry) for _ in range(3))
    assert allowed(policy, admission("CREATE", core_event()))
    assert not allowed(policy, admission("CREATE", core_event()))
    assert allowed(policy, dry)


KEYS = {
    "Server": "",
    "Namespace": "team-a",
    "User": "jane",
    "SourceAndObject": '["kubelet","node-1","Pod","team-a","web","u-1","v1"]',
}


@every_backend
@pytest.mark.parametrize("type_", ALL)
def test_a_denial_is_the_same_as_that_of_the_api_server(backend: Callable[..., AnyPolicy], type_: LimitType) -> None:
    policy = backend(limits(type_))
    for obj in (core_event(), event()):
        verdict(policy, admission("CREATE", obj))
        outcome = verdict(policy, admission("CREATE", obj))
        assert isinstance(outcome, Deny)
        assert outcome.message == f"Too many requests: limit reached on type {type_} for key {KEYS[type_]}"
        assert (outcome.reason, outcome.code, outcome.details) == ("TooManyRequests", 429, {"retryAfterSeconds": 1})


def message(policy: AnyPolicy, review: AdmissionReview) -> str:
    outcome = verdict(policy, review)
    assert isinstance(outcome, Deny)
    return outcome.message


@every_backend
def test_all_limits_without_a_token_are_listed(
    backend: Callable[..., AnyPolicy],
) -> None:
    policy = backend([*limits("User"), *limits("Server", burst=5), *limits("Namespace"), *limits("User")])
    verdict(policy, admission("CREATE", core_event()))
    assert message(policy, admission("CREATE", core_event())) == (
        "Too many requests: [limit reached on type User for key jane, limit reached on type Namespace for key team-a]"
    )


def test_equal_messages_are_shown_once() -> None:
    policy = in_memory(limits("User", "User"))
    verdict(policy, admission("CREATE", core_event()))
    assert message(policy, admission("CREATE", core_event())) == (
        "Too many requests: limit reached on type User for key jane"
    )


@every_backend
def test_every_limit_takes_a_token(backend: Callable[..., AnyPolicy]) -> None:
    policy = backend([*limits("Namespace", burst=1), *limits("User", burst=3)])
    elsewhere = core_event(metadata={"name": "e", "namespace": "elsewhere"})
    assert [allowed(policy, admission("CREATE", core_event())) for _ in range(3)] == [True, False, False]
    assert message(policy, admission("CREATE", elsewhere)).endswith("limit reached on type User for key jane")


@pytest.mark.parametrize(
    ("waits", "seconds"),
    [([1], 1), ([SECOND], 1), ([SECOND + 1], 2), ([1, 0, 3 * SECOND, 5], 3), ([0, 90 * SECOND], 90)],
)
def test_the_longest_wait_counts(waits: list[int], seconds: int) -> None:
    outcome = Limiter(limits(*(["Namespace"] * len(waits))), MetricRegistry()).decide(["team-a"] * len(waits), waits)
    assert isinstance(outcome, Deny)
    assert outcome.details == {"retryAfterSeconds": seconds}


def answered(body: Json, *policies: AnyPolicy) -> Json:
    """The response as the API server reads it."""
    review = admission_codec.CODEC.decode(encode_body(body))
    return accept_admission(body, encode_response("validating", review, decide(review, *policies)), mutating=False)


EVENT_BODY = admission_body("CREATE", core_event(), resource="v1/events")
DETAILS = {"retryAfterSeconds": 1}


@every_backend
def test_the_time_of_a_retry(backend: Callable[..., AnyPolicy]) -> None:
    policy = backend(limits("Namespace"))
    assert answered(EVENT_BODY, policy)["allowed"]
    response = answered(EVENT_BODY, policy)
    assert not response["allowed"]
    assert response["status"] == {
        "message": "Too many requests: limit reached on type Namespace for key team-a",
        "reason": "TooManyRequests",
        "code": 429,
        "details": DETAILS,
    }


@validating("*/*")
def strict(review: AdmissionReview) -> Decision:
    return Deny("no", details={"name": "web", "causes": [{"field": "spec", "message": "bad"}]})


@every_backend
def test_the_time_of_a_retry_with_another_denial(backend: Callable[..., AnyPolicy]) -> None:
    policy = backend(limits("Namespace"))
    answered(EVENT_BODY, policy)
    status = answered(EVENT_BODY, policy, strict)["status"]
    reached = "Too many requests: limit reached on type Namespace for key team-a"
    causes = [{"reason": "event_rate_limit", "message": reached}, {"reason": "strict", "message": "no"}]
    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert status["details"] == {**DETAILS, "causes": causes}
    status = answered(EVENT_BODY, strict, policy)["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    own = {"field": "spec", "message": "bad"}
    assert status["details"] == {"name": "web", "causes": [own, causes[1], causes[0]]}


HIDDEN = {
    "a newline": ("a\nb", "a\\nb"),
    "an escape": ("\x1b[31m", "\\x1b[31m"),
    "a reversal": ("\u202eevil", "\\u202eevil"),
    "beyond the basic plane": ("\U000e0001", "\\U000e0001"),
    "letters of the world": ("j\u00f6rg \u4e2d\U0001f600", "j\u00f6rg \u4e2d\U0001f600"),
}


@pytest.mark.parametrize(("user", "shown"), HIDDEN.values(), ids=HIDDEN)
def test_messages_are_printable(user: str, shown: str) -> None:
    policy = in_memory(limits("User"))
    verdict(policy, admission("CREATE", core_event(), user=user))
    assert message(policy, admission("CREATE", core_event(), user=user)).endswith(f"for key {shown}")


@every_backend
@pytest.mark.parametrize("type_", ["User", "SourceAndObject"])
def test_a_long_key_has_a_bucket_and_a_short_message(backend: Callable[..., AnyPolicy], type_: LimitType) -> None:
    policy = backend(limits(type_))
    long = "\n" * 2**20
    review = admission("CREATE", core_event(source={"component": long}), user=long)
    assert allowed(policy, review)
    shown = message(policy, review)
    assert len(shown) < 1000
    assert shown.isprintable()


@every_backend
def test_malformed_events_share_a_bucket(backend: Callable[..., AnyPolicy]) -> None:
    policy = backend(limits("SourceAndObject", burst=2))
    wrong: list[Any] = [None, 5, "x", [], {"component": 1, "kind": ["x"]}, ...]
    reviews = [admission("CREATE", core_event(source=value, involvedObject=value)) for value in wrong]
    assert [allowed(policy, review) for review in reviews] == [True] * 2 + [False] * 4


@every_backend
def test_an_invalid_event_is_rejected(backend: Callable[..., AnyPolicy]) -> None:
    body = encode_body(admission_body("CREATE", core_event(), resource="v1/events"))
    twice = body.replace(b'"source":', b'"source":{},"source":')
    policy = backend(limits("SourceAndObject"))
    with pytest.raises(MalformedReview, match="duplicate key"):
        decide(admission_codec.CODEC.decode(twice), policy)


@every_backend
def test_decisions_are_counted(backend: Callable[..., AnyPolicy]) -> None:
    metrics = MetricRegistry()
    policy = backend([*limits("Server", burst=2), *limits("User", burst=3)], metrics)
    for _ in range(5):
        verdict(policy, admission("CREATE", core_event()))
    verdict(policy, admission("CREATE", core_event(), dry_run=True))
    assert metrics.by_name["webhooks_event_rate_limit_decisions"].values == {
        ("Server", "allow"): 2,
        ("Server", "deny"): 3,
        ("User", "allow"): 3,
        ("User", "deny"): 2,
    }
