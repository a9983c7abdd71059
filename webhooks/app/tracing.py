"""Tracing by OpenTelemetry: a span for each review, within the trace of its client, and one for each call of a policy.

Requires the extra ``tracing``. The standard ``OTEL_*`` environment variables configure the exporter and the sampling.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagators.textmap import Getter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

from webhooks.app.decision_log import DecisionLog, DecisionRecord
from webhooks.app.endpoints import AnyEndpoint, Endpoint
from webhooks.auth.client import ANONYMOUS, Client
from webhooks.engine.executor import InlineState, PolicyExecutor
from webhooks.engine.invocation import Result
from webhooks.errors import ConfigurationError, MalformedReview
from webhooks.http.headers import NO_HEADERS
from webhooks.http.responses import JsonResponse
from webhooks.observability.metrics import MetricRegistry
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.codec import ReviewSummary

_PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_CLOSE_TIMEOUT = 2.0  # seconds to send the last spans
_ATTRIBUTES = (*ReviewSummary.__struct_fields__, "kind", "verdict", "code", "message", "client")


class _HeaderGetter(Getter[Mapping[bytes, bytes]]):
    """Reads the trace context from the headers of a request."""

    def get(self, carrier: Mapping[bytes, bytes], key: str) -> list[str] | None:
        """Return the values of a header."""
        value = carrier.get(key.lower().encode())
        return None if value is None else [value.decode("latin-1")]

    def keys(self, carrier: Mapping[bytes, bytes]) -> list[str]:
        """Return the names of all headers."""
        return [name.decode("latin-1") for name in carrier]


_header_getter = _HeaderGetter()


class Tracing:
    """Traces the reviews of one process.

    Args:
        processor: processes finished spans.
    """

    def __init__(self, processor: SpanProcessor) -> None:
        self._processor = processor
        provider = TracerProvider(resource=_create_resource(), shutdown_on_exit=False)
        provider.add_span_processor(processor)
        self._tracer = provider.get_tracer("webhooks")

    @classmethod
    def from_environment(cls) -> "Tracing":
        """Configure tracing by the environment variables.

        Raises:
            ConfigurationError: a variable is invalid, or requires a package that is not installed.
        """
        for name in _PROTOCOL_VARIABLES:
            if os.environ.get(name, _PROTOCOL) != _PROTOCOL:
                raise ConfigurationError(f"{name}: {os.environ[name]!r} is not supported: use {_PROTOCOL}")
        try:
            return cls(BatchSpanProcessor(OTLPSpanExporter()))
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"--tracing: an OTEL_* variable is invalid: {error}") from None

    async def close(self) -> None:
        """Send the remaining spans, within a time limit."""
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, _CLOSE_TIMEOUT)

    def trace_endpoints(self, endpoints: Mapping[str, AnyEndpoint]) -> Mapping[str, AnyEndpoint]:
        """Return endpoints by path that create a span for each review."""
        return {
            path: TracedEndpoint(path, endpoint, self._tracer) if isinstance(endpoint, Endpoint) else endpoint
            for path, endpoint in endpoints.items()
        }

    def trace_decisions(self, decision_log: DecisionLog | None) -> DecisionLog:
        """Return a decision log that also adds each decision to the span of its review."""
        return TracedDecisionLog(decision_log)

    def create_executor(
        self,
        policies: Iterable[AnyPolicy],
        on_mode_change: Callable[[str, InlineState], None],
        metrics: MetricRegistry,
    ) -> "TracedExecutor":
        """Create an executor that creates a span for each call of a policy."""
        return TracedExecutor(policies, on_mode_change, metrics, self._tracer)


def _create_resource() -> Resource:
    """Describe this server, with the default name unless a variable sets one."""
    resource = Resource.create()
    is_unnamed = str(resource.attributes[SERVICE_NAME]).startswith("unknown_service")
    return resource.merge(Resource({SERVICE_NAME: "cluster-webhooks"})) if is_unnamed else resource


class TracedEndpoint:
    """An endpoint that creates a span for each review.

    Args:
        path: the path of the endpoint.
        endpoint: the endpoint.
        tracer: creates the spans.
    """

    def __init__(self, path: str, endpoint: Endpoint[Any], tracer: Tracer) -> None:
        self._path = path
        self._endpoint = endpoint
        self._tracer = tracer

    def answer(
        self, body: bytes, query: bytes, client: Client = ANONYMOUS, headers: Mapping[bytes, bytes] = NO_HEADERS
    ) -> JsonResponse | Awaitable[JsonResponse]:
        """Answer a review within a span."""
        context = propagate.extract(headers, Context(), _header_getter)
        span = self._tracer.start_span(
            f"POST {self._path}",
            context,
            SpanKind.SERVER,
            {"http.request.method": "POST", "http.route": self._path},
        )
        with trace.use_span(span):
            response = self._endpoint.answer(body, query, client, headers)
        if isinstance(response, JsonResponse):
            return _finish(span, response)
        return self._answer_later(span, response)

    def reject(self, malformed: MalformedReview, body: bytes, client: Client = ANONYMOUS) -> JsonResponse:
        """Respond to a body that is not a valid review, without a span."""
        return self._endpoint.reject(malformed, body, client)

    async def _answer_later(self, span: Span, response: Awaitable[JsonResponse]) -> JsonResponse:
        with trace.use_span(span):
            return _finish(span, await response)


def _finish(span: Span, response: JsonResponse) -> JsonResponse:
    span.set_attribute("http.response.status_code", response.code)
    if response.code >= 500:
        span.set_status(StatusCode.ERROR)
    span.end()
    return response


class TracedDecisionLog(DecisionLog):
    """Adds decisions to the spans of their reviews, and the ids of the traces to the decision log.

    Args:
        decision_log: the decision log; None for no log.
    """

    def __init__(self, decision_log: DecisionLog | None) -> None:
        self._decision_log = decision_log

    def is_enabled_for(self, verdict: str) -> bool:
        """Return whether the span or the decision log records reviews with this verdict."""
        return trace.get_current_span().is_recording() or self._is_logged(verdict)

    def _is_logged(self, verdict: str) -> bool:
        return self._decision_log is not None and self._decision_log.is_enabled_for(verdict)

    def write(self, record: DecisionRecord) -> None:
        """Add a decision to the span and to the decision log."""
        span = trace.get_current_span()
        for name in _ATTRIBUTES:
            value = getattr(record, name)
            if value:
                span.set_attribute(f"webhooks.{name}", value)
        if self._decision_log is not None and self._decision_log.is_enabled_for(record.verdict):
            context = span.get_span_context()
            if context.is_valid:
                record.trace_id = trace.format_trace_id(context.trace_id)
            self._decision_log.write(record)


class TracedExecutor(PolicyExecutor):
    """An executor that creates a span for each call of a policy. A policy can add its own spans to it.

    Args:
        policies: see `PolicyExecutor`.
        on_mode_change: see `PolicyExecutor`.
        metrics: see `PolicyExecutor`.
        tracer: creates the spans.
    """

    def __init__(
        self,
        policies: Iterable[AnyPolicy],
        on_mode_change: Callable[[str, InlineState], None],
        metrics: MetricRegistry,
        tracer: Tracer,
    ) -> None:
        super().__init__(policies, on_mode_change, metrics)
        self._tracer = tracer

    def run_inline(self, policy: AnyPolicy, review: Any, deadline: float) -> Result:
        """Call a policy inline, within a span."""
        with self._span(policy) as finish:
            return finish(super().run_inline(policy, review, deadline))

    async def run(self, policy: AnyPolicy, review: Any, deadline: float) -> Result:
        """Call a policy within a span."""
        if self.are_inline((policy,)):
            return await super().run(policy, review, deadline)  # calls `run_inline`
        with self._span(policy) as finish:
            return finish(await super().run(policy, review, deadline))

    @contextmanager
    def _span(self, policy: AnyPolicy) -> Iterator[Callable[[Result], Result]]:
        """Create a span, and yield a function that adds the result. It is not called if the policy is interrupted."""
        with self._tracer.start_as_current_span(
            f"policy {policy.name}",
            attributes={"webhooks.policy": policy.name, "webhooks.outcome": "stopped"},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:

            def finish(result: Result) -> Result:
                span.set_attribute("webhooks.outcome", result.name)
                if result.failure is not None:
                    span.set_status(StatusCode.ERROR, result.name)
                return result

            yield finish
