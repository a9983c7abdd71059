"""The metrics of reviews, of one process and of several."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from webhooks import (
    Allow,
    Authenticated,
    Deny,
    NoOpinion,
    Replace,
    Unauthenticated,
    authenticating,
    authorizing,
    create_app,
    image_policy,
    mutating,
    validating,
)
from webhooks.app import prometheus
from webhooks.app.asgi import WebhookApp
from webhooks.app.review_metrics import MetricsSnapshot, ReviewMetrics
from webhooks.auth.client import ANONYMOUS, Client
from webhooks.errors import ConfigurationError
from webhooks.http.responses import JsonResponse
from webhooks.objects.typed_decoding import decode_typed, fallbacks
from webhooks.observability.metrics import Counter, Gauge, Histogram, HistogramData, MetricRegistry
from webhooks.plugins.loader import PluginContext

from ..support.builders import access_body, admission_body, image_body, pod, token_body
from ..support.servers import Gate, Server, await_true, serving

Labels = tuple[str, ...]


@mutating("pods")
def labels(review: Any) -> Any:
    obj = review.object
    obj["metadata"]["labels"] = {"a": "b"}
    return Replace(obj) if obj["metadata"]["name"] == "new" else Allow()


@validating("pods")
def choosy(review: Any) -> Any:
    if review.name == "bad":
        return Deny("no", code=422)
    if review.name == "raises":
        raise ValueError
    return Allow()


@validating("pods", names=["sleeps"], timeout=0.01)
async def sleeps(review: Any) -> Allow:
    await asyncio.sleep(30)
    return Allow()


@authorizing("pods")
def rbac(access: Any) -> Any:
    if access.verb == "raise":
        raise ValueError
    return {"get": Allow(), "delete": Deny("no")}.get(access.verb, NoOpinion())


@authenticating
def tokens(review: Any) -> Any:
    return Authenticated("jane") if review.token == "good" else Unauthenticated("bad")


@image_policy
def pinned(review: Any) -> Any:
    return Allow() if all("@" in image for image in review.images) else Deny("no")


@pytest.fixture
def client() -> Iterator[TestClient]:
    """A client that uses one event loop for all requests, as a server does."""
    with TestClient(create_app([labels, choosy, sleeps, rbac, tokens, pinned])) as client:
        yield client


def samples(client: TestClient, name: str, *labels: str) -> dict[Labels, float]:
    """Return the samples of a metric by the values of its labels."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    result = [sample for family in families for sample in family.samples if sample.name == name]
    assert all(set(sample.labels) == set(labels) for sample in result)
    return {tuple(sample.labels[label] for label in labels): sample.value for sample in result}


def reviews(client: TestClient) -> dict[Labels, float]:
    return samples(client, "webhooks_reviews_total", "kind", "verdict", "code")


def named(name: str) -> Any:
    return admission_body("CREATE", pod(name), name=name)


@pytest.mark.parametrize(
    ("path", "body", "counted"),
    [
        ("/admission/validate", named("good"), ("AdmissionReview", "allow", "200")),
        ("/admission/validate", named("bad"), ("AdmissionReview", "deny", "422")),
        ("/admission/validate", named("raises"), ("AdmissionReview", "deny", "500")),
        ("/admission/validate", named("sleeps"), ("AdmissionReview", "deny", "504")),
        ("/admission/mutate", named("new"), ("AdmissionReview", "patch", "200")),
        ("/admission/mutate", named("old"), ("AdmissionReview", "allow", "200")),
        ("/admission/mutate/labels", named("new"), ("AdmissionReview", "patch", "200")),
        ("/admission/validate", {"request": {"uid": "a"}}, ("AdmissionReview", "malformed", "400")),
        ("/admission/validate", {}, ("AdmissionReview", "malformed", "400")),
        ("/authorize", access_body(verb="get", resource="pods"), ("SubjectAccessReview", "allow", "200")),
        ("/authorize", access_body(verb="delete", resource="pods"), ("SubjectAccessReview", "deny", "403")),
        ("/authorize", access_body(verb="list", resource="pods"), ("SubjectAccessReview", "noopinion", "200")),
        ("/authorize", access_body(verb="get", resource="nodes"), ("SubjectAccessReview", "noopinion", "200")),
        ("/authorize", access_body(verb="raise", resource="pods"), ("SubjectAccessReview", "failed", "500")),
        ("/authorize", {}, ("SubjectAccessReview", "malformed", "400")),
        ("/authenticate", token_body("good"), ("TokenReview", "authenticated", "200")),
        ("/authenticate", token_body("bad"), ("TokenReview", "unauthenticated", "200")),
        ("/images", image_body("a@b"), ("ImageReview", "allow", "200")),
        ("/images", image_body("a"), ("ImageReview", "deny", "403")),
    ],
)
def test_reviews_by_kind_verdict_and_code(path: str, body: Any, counted: Labels, client: TestClient) -> None:
    for times in (1, 2):
        client.post(path, json=body)
        assert reviews(client) == {counted: times}


def test_reviews_are_timed(client: TestClient) -> None:
    before = samples(client, "webhooks_review_duration_seconds_count", "kind")
    assert before == {(kind,): 0 for kind in ("AdmissionReview", "SubjectAccessReview", "TokenReview", "ImageReview")}
    for name in ("good", "sleeps", "good"):
        client.post("/admission/validate", json=named(name))
    client.post("/images", json={})
    counts = samples(client, "webhooks_review_duration_seconds_count", "kind")
    assert counts == {**before, ("AdmissionReview",): 3, ("ImageReview",): 1}
    assert 0.01 <= samples(client, "webhooks_review_duration_seconds_sum", "kind")["AdmissionReview",] < 5
    buckets = samples(client, "webhooks_review_duration_seconds_bucket", "kind", "le")
    assert buckets["AdmissionReview", "0.005"] <= 2  # one of the three sleeps longer than that
    assert buckets["AdmissionReview", "+Inf"] == 3


def test_a_duration_is_counted_in_its_bucket() -> None:
    metrics = ReviewMetrics(MetricRegistry())
    for seconds in (0.004, 0.005, 0.02):
        metrics.record("AdmissionReview", "allow", 200, ANONYMOUS, (), seconds)
    families = text_string_to_metric_families(prometheus.render(metrics.snapshot).decode())
    buckets = {
        sample.labels["le"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == "webhooks_review_duration_seconds_bucket" and sample.labels["kind"] == "AdmissionReview"
    }
    assert (buckets["0.001"], buckets["0.005"], buckets["0.025"], buckets["+Inf"]) == (0, 2, 3, 3)


def send_reviews(app: WebhookApp, *clients: Client) -> dict[Labels, float]:
    """Send a review of each client, and return the number of reviews by client."""
    for client in clients:
        assert isinstance(app.routes.by_path["/images"].answer(b"{}", b"", client), JsonResponse)
    return samples(TestClient(app), "webhooks_client_reviews_total", "client")


def test_reviews_are_counted_by_client() -> None:
    clients = (Client("apiserver"), ANONYMOUS, Client("apiserver", "jane"), Client("apiserver"))
    assert send_reviews(create_app([]), *clients) == {("apiserver",): 2, ("apiserver as jane",): 1}


def test_many_clients_share_a_label() -> None:
    counts = send_reviews(create_app([]), *(Client(f"client-{number}") for number in (*range(150), 0, 149)))
    assert len(counts) == 101
    assert (counts["client-0",], counts["others",]) == (2, 51)


def test_too_large_bodies_are_counted(client: TestClient) -> None:
    client.post("/images", content=b" " * (7 * 1024 * 1024 + 1), headers={"Content-Type": "application/json"})
    assert reviews(client) == {("ImageReview", "malformed", "413"): 1}


def test_policies_by_outcome(client: TestClient) -> None:
    for name in ("good", "good", "bad", "raises", "sleeps"):
        client.post("/admission/validate", json=named(name))
    counts = samples(client, "webhooks_policy_duration_seconds_count", "policy", "outcome")
    assert counts == {
        ("choosy", "allow"): 3,
        ("choosy", "deny"): 1,
        ("choosy", "policyfailure"): 1,
        ("sleeps", "policytimeout"): 1,
    }
    seconds = samples(client, "webhooks_policy_duration_seconds_sum", "policy", "outcome")
    assert 0.01 <= seconds["sleeps", "policytimeout"] < 5
    assert 0 < seconds["choosy", "allow"] < 1


def test_buckets_add_up(client: TestClient) -> None:
    for name in ("sleeps", "sleeps", "good"):
        client.post("/admission/validate", json=named(name))
    buckets = samples(client, "webhooks_policy_duration_seconds_bucket", "policy", "outcome", "le")
    slow = {float(le): count for (policy, _, le), count in buckets.items() if policy == "sleeps"}
    assert list(slow.values()) == sorted(slow.values())
    assert max(slow) == float("inf")
    assert slow[float("inf")] == 2
    assert all(count == 0 for bound, count in slow.items() if bound <= 0.005)


def test_fast_policies_are_shown_as_inline(client: TestClient) -> None:
    def is_inline() -> bool:
        client.post("/admission/validate", json=named("good"))
        return samples(client, "webhooks_policy_inline", "policy").get(("choosy",)) == 1

    for _ in range(100):
        client.post("/admission/validate", json=named("good"))
    await_true(is_inline, "it is called inline")


def test_overrun_threads_are_shown(tmp_path_factory: pytest.TempPathFactory) -> None:
    def overrun(server: Server) -> str:
        lines = server.get("/metrics", ops=True).body.decode().splitlines()
        return next((line for line in lines if line.startswith("webhooks_policy_overrun_threads{")), "")

    with serving(tmp_path_factory.mktemp("server")) as server, Gate() as gate:
        server.post("/admission/validate?timeout=1s", gate.review("hangs"))
        assert overrun(server) == 'webhooks_policy_overrun_threads{policy="hangs"} 1.0'
        gate.await_policy()
        gate.open()
        await_true(lambda: overrun(server).endswith(" 0.0"), "the thread is free")


def test_audit_events(client: TestClient) -> None:
    items = [{"level": level, "stage": "Panic"} for level in ("Metadata", "Metadata", "Request")]
    client.post("/audit", json={"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": items})
    counted = samples(client, "webhooks_audit_events_total", "level", "stage")
    assert counted == {("Metadata", "Panic"): 2, ("Request", "Panic"): 1}


def audit(number: int) -> Any:
    event = {"level": f"level-{number}", "stage": f"stage-{number}"}
    return {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [event]}


def test_registered_metrics_of_several_processes() -> None:
    def snapshot(number: int) -> MetricsSnapshot:
        metrics = MetricRegistry()
        metrics.counter("webhooks_c", "C.", ("type",)).add(f"type-{number}", amount=number)
        metrics.counter("webhooks_c", "C.", ("type",)).add("both", amount=number)
        metrics.gauge("webhooks_g", "G.").set(number)
        metrics.histogram("webhooks_h", "H.", (1,)).observe(number)
        return MetricsSnapshot(registered=metrics.by_name)

    first, second, total = snapshot(1), snapshot(2), MetricsSnapshot()
    total.add(first)
    total.add(second)
    assert (first, second) == (snapshot(1), snapshot(2))
    counter = Counter("C.", ("type",), {("type-1",): 1, ("type-2",): 2, ("both",): 3})
    histogram = Histogram("H.", (), (1,), {(): HistogramData([1, 1], 3)})
    assert total.registered == {"webhooks_c": counter, "webhooks_g": Gauge("G.", (), {(): 3}), "webhooks_h": histogram}
    assert total.without_state().registered == {"webhooks_c": counter, "webhooks_h": histogram}
    assert b'webhooks_c_total{type="both"} 3.0\n' in prometheus.render(total)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/admission/validate",
            lambda number: admission_body("CREATE", pod(), uid=f"{number}", resource=f"v1/r{number}"),
        ),
        ("/admission/validate", lambda number: {"kind": f"kind-{number}", "apiVersion": f"{number}"}),
        ("/authorize", lambda number: access_body(verb=f"verb-{number}", resource=f"r{number}", user=f"{number}")),
        ("/authenticate", lambda number: token_body(f"token-{number}")),
        ("/images", lambda number: image_body(f"image-{number}")),
        ("/audit", audit),
    ],
    ids=["admission", "malformed", "authorize", "authenticate", "images", "audit"],
)
def test_clients_cannot_create_labels(path: str, body: Callable[[int], Any], client: TestClient) -> None:
    client.post(path, json=body(0))
    before = len(client.get("/metrics").text.splitlines())
    for number in range(1, 50):
        client.post(path, json=body(number))
    assert len(client.get("/metrics").text.splitlines()) == before


def test_metrics_contain_nothing_of_a_review(client: TestClient) -> None:
    client.post("/authenticate", json=token_body("verysecret"))
    client.post("/admission/validate", json=named("verysecret"))
    assert "verysecret" not in client.get("/metrics").text


def test_reviews_of_several_processes() -> None:
    total = MetricsSnapshot()
    for number in (1, 2):
        total.add(
            MetricsSnapshot(
                durations={"ImageReview": HistogramData([0] * 13 + [number], number)}, clients={"jane": number}
            )
        )
    assert total.without_state() == MetricsSnapshot(
        durations={"ImageReview": HistogramData([0] * 13 + [3], 3)}, clients={"jane": 3}
    )


def test_certificates_of_several_processes() -> None:
    """The first expiry counts: a process that could not load a new certificate must be visible."""
    total = MetricsSnapshot()
    total.add(MetricsSnapshot(certificate_expiry={"serving": 20.0, "ca": 30.0}, certificate_reload_failures=1))
    total.add(MetricsSnapshot(certificate_expiry={"serving": 10.0, "client_ca": 40.0}, certificate_reload_failures=2))
    assert total.certificate_expiry == {"serving": 10.0, "ca": 30.0, "client_ca": 40.0}
    assert total.without_state() == MetricsSnapshot(certificate_reload_failures=3)
    lines = prometheus.render(total).decode().splitlines()
    assert 'webhooks_certificate_expiry_timestamp_seconds{certificate="serving"} 10.0' in lines
    assert "webhooks_certificate_reload_failures_total 3.0" in lines


def test_fallbacks_of_typed_decoding_are_counted_by_kind(client: TestClient) -> None:
    before = fallbacks["Pod",]
    assert decode_typed(b'{"kind":"Pod","apiVersion":"v1","metadata":{},"fieldOfTheFuture":1}', "Pod") is None
    text = f'webhooks_typed_decoding_fallbacks_total{{kind="Pod"}} {before + 1}\n'
    assert text in client.get("/metrics").text


def test_metrics_of_plugins() -> None:
    context = PluginContext()
    context.metrics.counter("webhooks_early", "Registered before.", ("type",)).add("User")
    client = TestClient(create_app([], context))
    context.metrics.counter("webhooks_late", "Registered later.").add()
    assert client.get("/metrics").headers["content-type"] == CONTENT_TYPE_LATEST
    assert samples(client, "webhooks_early_total", "type") == {("User",): 1}
    assert samples(client, "webhooks_late_total") == {(): 1}


def test_plugins_cannot_use_reserved_names() -> None:
    context = PluginContext()
    context.metrics.counter("webhooks_reviews", "The same name as a metric of the server.")
    with pytest.raises(ConfigurationError, match="webhooks_reviews: reserved: a plugin must use another metric name"):
        create_app([], context)
