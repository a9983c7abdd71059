"""Traces: what is told of reviews and policies, and to whom."""

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
from webhooks.app.asgi import WebhookApp
from webhooks.app.decision_log import DecisionLog
from webhooks.app.tracing import Tracing
from webhooks.auth.client import Client
from webhooks.errors import ConfigurationError, MalformedReview
from webhooks.http.responses import JsonResponse
from webhooks.policy.registry import Registry

from ..support.builders import access_body, admission_body, encode_body, make_inline, pod
from ..support.servers import REVIEWS, SECONDS, Server, review, serving

AnyPolicy = Policy[Any, Any]
VALIDATE = "/admission/validate"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = {b"traceparent": f"00-{TRACE}-{PARENT}-01".encode(), b"tracestate": b"vendor=1"}


class Traced(NamedTuple):
    """What became of a review: the answer, the spans by their names, and the records."""

    answer: JsonResponse
    spans: dict[str, ReadableSpan]
    records: list[Any]


def traced(
    *policies: AnyPolicy,
    path: str = VALIDATE,
    body: Any = None,
    headers: dict[bytes, bytes] | None = None,
    in_place: bool = False,
    denials_only: bool = False,
) -> Traced:
    exporter = InMemorySpanExporter()
    lines: list[bytes] = []
    journal = DecisionLog(lines.append, denials_only=denials_only)
    app = WebhookApp(Registry(policies), journal=journal, tracing=Tracing(SimpleSpanProcessor(exporter)))
    if in_place:
        make_inline(app.runner, *policies)

    async def answered() -> JsonResponse:
        sent = encode_body(admission_body("CREATE", pod()) if body is None else body)
        answer = app.endpoints[path].answer(sent, b"", Client("apiserver"), headers or {})
        return answer if isinstance(answer, JsonResponse) else await answer

    answer = asyncio.run(answered())
    return Traced(answer, {span.name: span for span in exporter.get_finished_spans()}, list(map(json.loads, lines)))


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


@pytest.mark.parametrize("in_place", [False, True])
def test_a_review_and_its_policies(in_place: bool) -> None:
    answer, spans, _ = traced(quick, refusing, in_place=in_place)
    assert spans.keys() == {"POST /admission/validate", "policy quick", "policy refusing"}
    whole = spans["POST /admission/validate"]
    assert whole.parent is None
    assert whole.kind is SpanKind.SERVER
    assert dict(whole.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/admission/validate",
        "http.response.status_code": answer.code,
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
        assert span.parent.span_id == whole.context.span_id
        assert dict(span.attributes or {}) == {"webhooks.policy": name, "webhooks.outcome": outcome}
        assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("policy", [quick, on_loop], ids=lambda policy: policy.name)
def test_the_callers_trace_goes_on(policy: AnyPolicy) -> None:
    _, spans, [record] = traced(policy, headers=SAMPLED)
    whole = spans["POST /admission/validate"]
    assert whole.parent is not None
    assert whole.parent.is_remote
    assert trace.format_span_id(whole.parent.span_id) == PARENT
    assert {trace.format_trace_id(span.context.trace_id) for span in spans.values()} == {TRACE}
    assert whole.context.trace_state.get("vendor") == "1"
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
def test_else_one_begins(headers: dict[bytes, bytes]) -> None:
    _, spans, [record] = traced(quick, headers=headers)
    assert spans["POST /admission/validate"].parent is None
    assert record["trace_id"] == trace.format_trace_id(spans["policy quick"].context.trace_id) != TRACE


def test_what_the_caller_does_not_record_is_not_recorded() -> None:
    _, spans, [record] = traced(refusing, headers={b"traceparent": f"00-{TRACE}-{PARENT}-00".encode()})
    assert not spans
    assert record["trace_id"] == TRACE


@pytest.mark.parametrize(
    ("policy", "outcome"), [(failing, "policyfailure"), (late, "policytimeout")], ids=lambda value: str(value)[:20]
)
def test_failures(policy: AnyPolicy, outcome: str) -> None:
    span = traced(policy).spans[f"policy {policy.name}"]
    assert (span.attributes or {})["webhooks.outcome"] == outcome
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, outcome)
    assert not span.events  # an exception could tell what nobody is to know


def test_errors() -> None:
    _, spans, _ = traced(unsure, path="/authorize", body=access_body(verb="get", resource="pods"))
    assert spans["POST /authorize"].status.status_code is StatusCode.ERROR


def test_a_body_that_is_no_review() -> None:
    answer, spans, _ = traced(quick, body={})
    assert (spans["POST /admission/validate"].attributes or {})["webhooks.verdict"] == "malformed"
    assert answer.code == 400


def test_traces_need_no_decision_log() -> None:
    _, spans, records = traced(quick, denials_only=True)
    assert (spans["POST /admission/validate"].attributes or {})["webhooks.verdict"] == "allow"
    assert records == []


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_policy_runs_within_its_span(is_async: bool, in_place: bool) -> None:
    """So what it asks of others becomes a part of the trace."""
    seen = []

    def policy(review: AdmissionReview) -> Allow:
        seen.append(trace.get_current_span().get_span_context().span_id)
        return Allow()

    async def async_policy(review: AdmissionReview) -> Allow:
        return policy(review)

    decorated: AnyPolicy = validating("pods", name="policy")(async_policy if is_async else policy)
    _, spans, _ = traced(decorated, quick, in_place=in_place and not is_async)
    assert seen == [spans["policy policy"].context.span_id]


def test_mutating_policies() -> None:
    _, spans, _ = traced(labelled, path="/admission/mutate")
    assert (spans["policy labelled"].attributes or {})["webhooks.outcome"] == "replace"


def test_nothing_is_traced_of_a_body_that_is_too_large() -> None:
    exporter = InMemorySpanExporter()
    app = WebhookApp(Registry([quick]), tracing=Tracing(SimpleSpanProcessor(exporter)))
    answer = app.endpoints[VALIDATE].reject(MalformedReview("too large", code=413), b"")
    assert answer.code == 413
    assert not exporter.get_finished_spans()


# What the environment tells.


def test_another_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(ConfigurationError, match="OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc': traces are sent by http"):
        Tracing.told()


def test_the_extra_is_needed(tmp_path: Path) -> None:
    code = "import sys; sys.modules['opentelemetry.sdk'] = None; from webhooks.cli.main import main; main()"
    command = [sys.executable, "-c", code, "serve", "--policies", "library:required_labels", "--tracing"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 2
    assert done.stderr.startswith("webhooks: --tracing: there is no module opentelemetry.sdk")
    assert done.stderr.endswith(": pip install 'cluster-webhooks[tracing]'\n")


# Of a real server.


@contextmanager
def receiving() -> Iterator[tuple[str, "Queue[ExportTraceServiceRequest]"]]:
    """A receiver of OTLP over HTTP, as its URL, and what it receives."""
    received: Queue[ExportTraceServiceRequest] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/traces"
            received.put(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

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
    with receiving() as (url, received):
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_RESOURCE_ATTRIBUTES": "team=a"}
        with serving(tmp_path, "--tracing", **environment) as server:
            post(server)
            assert server.stop() == 0  # what is left is sent then
        sent = received.get(timeout=SECONDS).resource_spans[0]
    of = {each.key: each.value.string_value for each in sent.resource.attributes}
    assert (of["service.name"], of["team"]) == ("cluster-webhooks", "a")
    spans = {span.name: span for span in sent.scope_spans[0].spans}
    assert spans.keys() == {"POST /admission/validate", "policy reads_all", "policy denies"}
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert spans["POST /admission/validate"].parent_span_id.hex() == PARENT
    assert spans["policy denies"].parent_span_id == spans["POST /admission/validate"].span_id


def test_nobody_waits_for_a_receiver_that_is_away(tmp_path: Path) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SERVICE_NAME": "mine"}
    with serving(tmp_path, "--tracing", **environment) as server:
        post(server)
        assert server.stop() == 0


def test_nothing_is_loaded_unless_it_is_wanted(tmp_path: Path) -> None:
    policy = "\nimport sys\nassert not [name for name in sys.modules if name.startswith('opentelemetry.sdk')]\n"
    with serving(tmp_path, policies="from webhooks import *\n@validating('pods')\ndef p(r): return Allow()" + policy):
        pass
