"""Spans of reviews and policies, and the configuration of the exporter."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, NamedTuple

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from webhooks import AdmissionReview, Allow, Deny, Policy, Replace, authorizing, mutating, validating
from webhooks.app.decision_log import DecisionLog
from webhooks.app.tracing import Tracing
from webhooks.auth.client import Client
from webhooks.errors import ConfigurationError, MalformedReview
from webhooks.http.responses import JsonResponse

from ..support.builders import access_body, admission_body, encode_body, make_inline, pod
from ..support.reviews import build_reviews
from ..support.servers import REVIEWS, SECONDS, Server, review, serving

AnyPolicy = Policy[Any, Any]
VALIDATE = "/admission/validate"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = {b"traceparent": f"00-{TRACE}-{PARENT}-01".encode(), b"tracestate": b"vendor=1"}


class Traced(NamedTuple):
    """The response to a review, its spans by name, and its records in the decision log."""

    response: JsonResponse
    spans: dict[str, ReadableSpan]
    records: list[Any]


def review_traced(
    *policies: AnyPolicy,
    path: str = VALIDATE,
    body: Any = None,
    headers: dict[bytes, bytes] | None = None,
    inline: bool = False,
    denials_only: bool = False,
) -> Traced:
    """Review a request with tracing."""
    exporter = InMemorySpanExporter()
    lines: list[bytes] = []
    decision_log = DecisionLog(lines.append, denials_only=denials_only)
    reviews = build_reviews(policies, decision_log=decision_log, tracing=Tracing(SimpleSpanProcessor(exporter)))
    if inline:
        make_inline(reviews.executor, *policies)

    async def respond() -> JsonResponse:
        sent = encode_body(admission_body("CREATE", pod()) if body is None else body)
        response = reviews.endpoint(path).answer(sent, b"", Client("apiserver"), headers or {})
        return response if isinstance(response, JsonResponse) else await response

    response = asyncio.run(respond())
    return Traced(response, {span.name: span for span in exporter.get_finished_spans()}, list(map(json.loads, lines)))


@validating("pods")
def quick(review: AdmissionReview) -> Allow:
    return Allow()


@validating("pods")
def refusing(review: AdmissionReview) -> Deny:
    return Deny("no")


@validating("pods")
async def on_loop(review: AdmissionReview) -> Allow:
    return Allow()


@validating("pods")
def failing(review: AdmissionReview) -> Allow:
    raise ValueError("a detail")


@validating("pods", timeout=0.01)
async def late(review: AdmissionReview) -> Allow:
    await asyncio.sleep(30)
    return Allow()


@mutating("pods")
def labelled(review: AdmissionReview) -> Replace:
    return Replace({**review.object, "kind": "Pod"})


@authorizing("pods")
def unsure(access: Any) -> Any:
    raise ValueError


@pytest.mark.parametrize("inline", [False, True])
def test_a_review_and_its_policies(inline: bool) -> None:
    response, spans, _ = review_traced(quick, refusing, inline=inline)
    assert spans.keys() == {"POST /admission/validate", "policy quick", "policy refusing"}
    review_span = spans["POST /admission/validate"]
    assert review_span.parent is None
    assert review_span.kind is SpanKind.SERVER
    assert dict(review_span.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/admission/validate",
        "http.response.status_code": response.code,
        "webhooks.uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "webhooks.operation": "CREATE",
        "webhooks.resource": "v1/pods",
        "webhooks.namespace": "team-a",
        "webhooks.name": "web",
        "webhooks.user": "jane",
        "webhooks.kind": "AdmissionReview",
        "webhooks.verdict": "deny",
        "webhooks.code": 403,
        "webhooks.message": "no",
        "webhooks.client": "apiserver",
    }
    for name, outcome in (("quick", "allow"), ("refusing", "deny")):
        span = spans[f"policy {name}"]
        assert span.parent is not None
        assert span.parent.span_id == review_span.context.span_id
        assert dict(span.attributes or {}) == {"webhooks.policy": name, "webhooks.outcome": outcome}
        assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("policy", [quick, on_loop], ids=lambda policy: policy.name)
def test_the_trace_of_the_client_is_continued(policy: AnyPolicy) -> None:
    _, spans, [record] = review_traced(policy, headers=SAMPLED)
    review_span = spans["POST /admission/validate"]
    assert review_span.parent is not None
    assert review_span.parent.is_remote
    assert trace.format_span_id(review_span.parent.span_id) == PARENT
    assert {trace.format_trace_id(span.context.trace_id) for span in spans.values()} == {TRACE}
    assert review_span.context.trace_state.get("vendor") == "1"
    assert record["trace_id"] == TRACE


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {b"traceparent": b""},
        {b"traceparent": b"rubbish\xff"},
        {b"traceparent": b"00-00000000000000000000000000000000-b7ad6b7169203331-01"},
        {b"tracestate": b"vendor=1"},
    ],
)
def test_otherwise_a_new_trace_starts(headers: dict[bytes, bytes]) -> None:
    _, spans, [record] = review_traced(quick, headers=headers)
    assert spans["POST /admission/validate"].parent is None
    assert record["trace_id"] == trace.format_trace_id(spans["policy quick"].context.trace_id) != TRACE


def test_a_trace_that_the_client_does_not_sample_is_not_recorded() -> None:
    _, spans, [record] = review_traced(refusing, headers={b"traceparent": f"00-{TRACE}-{PARENT}-00".encode()})
    assert not spans
    assert record["trace_id"] == TRACE


@pytest.mark.parametrize(
    ("policy", "outcome"), [(failing, "policyfailure"), (late, "policytimeout")], ids=lambda value: str(value)[:20]
)
def test_failures(policy: AnyPolicy, outcome: str) -> None:
    span = review_traced(policy).spans[f"policy {policy.name}"]
    assert (span.attributes or {})["webhooks.outcome"] == outcome
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, outcome)
    assert not span.events  # an exception may contain secrets


def test_errors() -> None:
    _, spans, _ = review_traced(unsure, path="/authorize", body=access_body(verb="get", resource="pods"))
    assert spans["POST /authorize"].status.status_code is StatusCode.ERROR


def test_a_malformed_review() -> None:
    response, spans, _ = review_traced(quick, body={})
    assert (spans["POST /admission/validate"].attributes or {})["webhooks.verdict"] == "malformed"
    assert response.code == 400


def test_traces_need_no_decision_log() -> None:
    _, spans, records = review_traced(quick, denials_only=True)
    assert (spans["POST /admission/validate"].attributes or {})["webhooks.verdict"] == "allow"
    assert records == []


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_policy_runs_within_its_span(is_async: bool, inline: bool) -> None:
    """So requests of the policy become a part of the trace."""
    span_ids = []

    def policy(review: AdmissionReview) -> Allow:
        span_ids.append(trace.get_current_span().get_span_context().span_id)
        return Allow()

    async def async_policy(review: AdmissionReview) -> Allow:
        return policy(review)

    decorated: AnyPolicy = validating("pods", name="policy")(async_policy if is_async else policy)
    _, spans, _ = review_traced(decorated, quick, inline=inline and not is_async)
    assert span_ids == [spans["policy policy"].context.span_id]


def test_mutating_policies() -> None:
    _, spans, _ = review_traced(labelled, path="/admission/mutate")
    assert (spans["policy labelled"].attributes or {})["webhooks.outcome"] == "replace"


def test_bodies_that_are_too_large_are_not_traced() -> None:
    exporter = InMemorySpanExporter()
    reviews = build_reviews([quick], tracing=Tracing(SimpleSpanProcessor(exporter)))
    response = reviews.endpoint(VALIDATE).reject(MalformedReview("too large", code=413), b"")
    assert response.code == 413
    assert not exporter.get_finished_spans()


# Configuration by environment variables.


def test_other_protocols_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(ConfigurationError, match="OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' is not supported"):
        Tracing.from_environment()


def test_the_extra_is_needed(tmp_path: Path) -> None:
    code = "import sys; sys.modules['opentelemetry.sdk'] = None; from webhooks.cli.main import main; main()"
    command = [sys.executable, "-c", code, "serve", "--policies", "library:required_labels", "--tracing"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert result.returncode == 2
    assert result.stderr.startswith("webhooks: --tracing requires the module opentelemetry.sdk")
    assert result.stderr.endswith(
        ": install the extra tracing: pip install 'cluster-webhooks[tracing]', or '.[tracing]' in a clone\n"
    )


# A real server.


@contextmanager
def run_receiver() -> Iterator[tuple[str, "Queue[ExportTraceServiceRequest]"]]:
    """Run a receiver of OTLP over HTTP. Yield its URL, and the queue of received requests."""
    received: Queue[ExportTraceServiceRequest] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/traces"
            received.put(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Do not log requests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            thread.join()


def post(server: Server) -> None:
    headers = {**REVIEWS, **{name.decode(): value.decode() for name, value in SAMPLED.items()}}
    assert server.post(VALIDATE, review("denied"), headers).status == 200


def test_spans_are_sent(tmp_path: Path) -> None:
    with run_receiver() as (url, received):
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_RESOURCE_ATTRIBUTES": "team=a"}
        with serving(tmp_path, "--tracing", **environment) as server:
            post(server)
            assert server.stop() == 0  # the server sends the remaining spans
        sent = received.get(timeout=SECONDS).resource_spans[0]
    attributes = {item.key: item.value.string_value for item in sent.resource.attributes}
    assert (attributes["service.name"], attributes["team"]) == ("cluster-webhooks", "a")
    spans = {span.name: span for span in sent.scope_spans[0].spans}
    assert spans.keys() == {"POST /admission/validate", "policy reads_all", "policy denies"}
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert spans["POST /admission/validate"].parent_span_id.hex() == PARENT
    assert spans["policy denies"].parent_span_id == spans["POST /admission/validate"].span_id


def test_an_unavailable_receiver_delays_nothing(tmp_path: Path) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SERVICE_NAME": "mine"}
    with serving(tmp_path, "--tracing", **environment) as server:
        post(server)
        assert server.stop() == 0


def test_opentelemetry_is_imported_only_for_tracing(tmp_path: Path) -> None:
    policy = "\nimport sys\nassert not [name for name in sys.modules if name.startswith('opentelemetry.sdk')]\n"
    with serving(tmp_path, policies="from webhooks import *\n@validating('pods')\ndef p(r): return Allow()" + policy):
        pass
