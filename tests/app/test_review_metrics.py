"""What is counted, as Prometheus reads it."""

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
from webhooks.app.asgi import WebhookApp
from webhooks.app.review_metrics import MetricsSnapshot, page
from webhooks.auth.client import ANONYMOUS, Client
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
    """One event loop for all calls, as a server has."""
    with TestClient(create_app([labels, choosy, sleeps, rbac, tokens, pinned])) as client:
        yield client


def samples(client: TestClient, name: str, *labels: str) -> dict[Labels, float]:
    """The samples of that name, by the values of these labels."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    found = [sample for family in families for sample in family.samples if sample.name == name]
    assert all(set(sample.labels) == set(labels) for sample in found)
    return {tuple(sample.labels[label] for label in labels): sample.value for sample in found}


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


def test_reviews_take_their_time(client: TestClient) -> None:
    before = samples(client, "webhooks_review_duration_seconds_count", "kind")
    assert before == {(kind,): 0 for kind in ("AdmissionReview", "SubjectAccessReview", "TokenReview", "ImageReview")}
    for name in ("good", "sleeps", "good"):
        client.post("/admission/validate", json=named(name))
    client.post("/images", json={})
    counts = samples(client, "webhooks_review_duration_seconds_count", "kind")
    assert counts == {**before, ("AdmissionReview",): 3, ("ImageReview",): 1}
    assert 0.01 <= samples(client, "webhooks_review_duration_seconds_sum", "kind")["AdmissionReview",] < 5
    buckets = samples(client, "webhooks_review_duration_seconds_bucket", "kind", "le")
    assert buckets["AdmissionReview", "0.005"] == 2
    assert buckets["AdmissionReview", "+Inf"] == 3


def answered(app: WebhookApp, caller: Client) -> None:
    """Have a review answered that somebody sent."""
    assert isinstance(app.endpoints["/images"].answer(b"{}", b"", caller), JsonResponse)


def test_callers_are_counted() -> None:
    app = create_app([])
    for caller in (Client("apiserver"), ANONYMOUS, Client("apiserver", "jane"), Client("apiserver")):
        answered(app, caller)
    client = TestClient(app)
    assert samples(client, "webhooks_client_reviews_total", "client") == {("apiserver",): 2, ("apiserver as jane",): 1}


def test_many_callers_share_a_label() -> None:
    app = create_app([])
    for number in (*range(150), 0, 149):
        answered(app, Client(f"caller-{number}"))
    counted = samples(TestClient(app), "webhooks_client_reviews_total", "client")
    assert len(counted) == 101
    assert (counted["caller-0",], counted["others",]) == (2, 51)


def test_too_large_bodies_are_counted(client: TestClient) -> None:
    client.post("/images", content=b" " * (7 * 1024 * 1024 + 1), headers={"Content-Type": "application/json"})
    assert reviews(client) == {("ImageReview", "malformed", "413"): 1}


def test_the_page(client: TestClient) -> None:
    client.post("/admission/validate", json=named("good"))
    reply = client.get("/metrics")
    assert reply.headers["content-type"] == CONTENT_TYPE_LATEST
    families = list(text_string_to_metric_families(reply.text))
    assert {family.name for family in families} >= {"webhooks_reviews", "webhooks_policy_duration_seconds"}
    assert all(family.documentation and family.type != "unknown" for family in families)


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


def test_policies_that_show_themselves_quick_run_in_place(client: TestClient) -> None:
    def in_place() -> bool:
        client.post("/admission/validate", json=named("good"))
        return samples(client, "webhooks_policy_inline", "policy").get(("choosy",)) == 1

    for _ in range(100):
        client.post("/admission/validate", json=named("good"))
    await_true(in_place, "it runs in place")


def test_threads_past_their_deadline_are_shown(tmp_path_factory: pytest.TempPathFactory) -> None:
    def overrun(server: Server) -> str:
        lines = server.get("/metrics", ops=True).body.decode().splitlines()
        return next((line for line in lines if line.startswith("webhooks_policy_overrun_threads{")), "")

    with serving(tmp_path_factory.mktemp("server")) as server, Gate() as gate:
        server.post("/admission/validate?timeout=1s", gate.review("hangs"))
        assert overrun(server) == 'webhooks_policy_overrun_threads{policy="hangs"} 1.0'
        gate.await_policy()
        gate.open()
        await_true(lambda: overrun(server).endswith(" 0.0"), "the thread is given back")


def test_audit_events(client: TestClient) -> None:
    items = [{"level": level, "stage": "Panic"} for level in ("Metadata", "Metadata", "Request")]
    client.post("/audit", json={"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": items})
    counted = samples(client, "webhooks_audit_events_total", "level", "stage")
    assert counted == {("Metadata", "Panic"): 2, ("Request", "Panic"): 1}


def audit(number: int) -> Any:
    event = {"level": f"level-{number}", "stage": f"stage-{number}"}
    return {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [event]}


def test_what_plugins_keep() -> None:
    site = PluginContext()
    counter = site.metrics.counter("webhooks_taken", "What was taken.", ("type",))
    gauge = site.metrics.gauge("webhooks_kept", "What is kept.")
    histogram = site.metrics.histogram("webhooks_seconds", "What it took.", (1, 2.5), ("type",))
    client = TestClient(create_app([], site))
    site.metrics.counter("webhooks_later", "What came later.").add()
    counter.add("User")
    counter.add("User")
    gauge.set(7)
    for seconds in (1, 2, 3):
        histogram.observe(seconds, "Server")
    text = client.get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    said = {name: (family.type, family.documentation) for name, family in families.items()}
    assert said["webhooks_taken"] == ("counter", "What was taken.")
    assert said["webhooks_kept"] == ("gauge", "What is kept.")
    assert said["webhooks_seconds"] == ("histogram", "What it took.")
    assert samples(client, "webhooks_taken_total", "type") == {("User",): 2}
    assert samples(client, "webhooks_kept") == {(): 7}
    assert samples(client, "webhooks_later_total") == {(): 1}
    assert samples(client, "webhooks_seconds_sum", "type") == {("Server",): 6}
    buckets = samples(client, "webhooks_seconds_bucket", "type", "le")
    assert buckets == {("Server", "1.0"): 1, ("Server", "2.5"): 2, ("Server", "+Inf"): 3}


def test_what_plugins_of_several_processes_keep() -> None:
    def tally(number: int) -> MetricsSnapshot:
        meters = MetricRegistry()
        meters.counter("webhooks_c", "C.", ("type",)).add(f"type-{number}", amount=number)
        meters.counter("webhooks_c", "C.", ("type",)).add("both", amount=number)
        meters.gauge("webhooks_g", "G.").set(number)
        meters.histogram("webhooks_h", "H.", (1,)).observe(number)
        return MetricsSnapshot(meters=meters.by_name)

    one, other, total = tally(1), tally(2), MetricsSnapshot()
    for each in (one, other):
        total.add(each)
    assert (one, other) == (tally(1), tally(2))
    counter = Counter("C.", ("type",), {("type-1",): 1, ("type-2",): 2, ("both",): 3})
    histogram = Histogram("H.", (), (1,), {(): HistogramData([1, 1], 3)})
    assert total.meters == {"webhooks_c": counter, "webhooks_g": Gauge("G.", (), {(): 3}), "webhooks_h": histogram}
    assert total.settled().meters == {"webhooks_c": counter, "webhooks_h": histogram}
    assert b'webhooks_c_total{type="both"} 3.0\n' in page(total)


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
def test_callers_cannot_make_up_labels(path: str, body: Callable[[int], Any], client: TestClient) -> None:
    client.post(path, json=body(0))
    before = len(client.get("/metrics").text.splitlines())
    for number in range(1, 50):
        client.post(path, json=body(number))
    assert len(client.get("/metrics").text.splitlines()) == before


def test_nothing_of_a_review_is_shown(client: TestClient) -> None:
    client.post("/authenticate", json=token_body("verysecret"))
    client.post("/admission/validate", json=named("verysecret"))
    assert "verysecret" not in client.get("/metrics").text


def test_reviews_of_several_processes() -> None:
    total = MetricsSnapshot()
    for number in (1, 2):
        total.add(
            MetricsSnapshot(
                durations={"ImageReview": HistogramData([0] * 13 + [number], number)}, callers={"jane": number}
            )
        )
    assert total.settled() == MetricsSnapshot(
        durations={"ImageReview": HistogramData([0] * 13 + [3], 3)}, callers={"jane": 3}
    )


def test_certificates_of_several_processes() -> None:
    """Of ends, the first counts: a process that could not take a new certificate over must be seen."""
    total = MetricsSnapshot()
    total.add(MetricsSnapshot(certificates={"serving": 20.0, "ca": 30.0}, reload_failures=1))
    total.add(MetricsSnapshot(certificates={"serving": 10.0, "client_ca": 40.0}, reload_failures=2))
    assert total.certificates == {"serving": 10.0, "ca": 30.0, "client_ca": 40.0}
    assert total.settled() == MetricsSnapshot(reload_failures=3)
    lines = page(total).decode().splitlines()
    assert 'webhooks_certificate_expiry_timestamp_seconds{certificate="serving"} 10.0' in lines
    assert "webhooks_certificate_reload_failures_total 3.0" in lines


def test_fallbacks_of_typed_decoding_are_counted_by_kind(client: TestClient) -> None:
    before = fallbacks["Pod",]
    assert decode_typed(b'{"kind":"Pod","apiVersion":"v1","metadata":{},"fieldOfTheFuture":1}', "Pod") is None
    text = f'webhooks_typed_decoding_fallbacks_total{{kind="Pod"}} {before + 1}\n'
    assert text in client.get("/metrics").text
