"""Tracing by OpenTelemetry: a span for every review, which goes on with its caller's trace, and one for every policy.

It needs the extra ``tracing``. Where spans go, and which, is told by the standard ``OTEL_*`` environment variables.
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

_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_PATIENCE = 2.0  # seconds for the last spans to be sent


class _Headers(Getter[Mapping[bytes, bytes]]):
    """Finds what is told of the caller's trace among a request's headers."""

    def get(self, carrier: Mapping[bytes, bytes], key: str) -> list[str] | None:
        """The values of a header."""
        value = carrier.get(key.lower().encode())
        return None if value is None else [value.decode("latin-1")]

    def keys(self, carrier: Mapping[bytes, bytes]) -> list[str]:
        """The names of all headers."""
        return [name.decode("latin-1") for name in carrier]


_headers = _Headers()


class Tracing:
    """What makes the spans of one process.

    Args:
        processor: what takes those that have ended.
    """

    def __init__(self, processor: SpanProcessor) -> None:
        self._processor = processor
        provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        provider.add_span_processor(processor)
        self._tracer = provider.get_tracer("webhooks")

    @classmethod
    def told(cls) -> "Tracing":
        """Tracing as the environment tells it.

        Raises:
            ConfigurationError: it tells something else than is there.
        """
        for name in _PROTOCOLS:
            if os.environ.get(name, _PROTOCOL) != _PROTOCOL:
                raise ConfigurationError(f"{name} is {os.environ[name]!r}: traces are sent by {_PROTOCOL} alone")
        try:
            return cls(BatchSpanProcessor(OTLPSpanExporter()))
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"--tracing: the OTEL_* variables cannot be followed: {error}") from None

    async def close(self) -> None:
        """Send what is left, if somebody takes it soon."""
        ending = threading.Thread(target=self._processor.shutdown, daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, _PATIENCE)

    def endpoints(self, endpoints: Mapping[str, AnyEndpoint]) -> Mapping[str, AnyEndpoint]:
        """The endpoints by their paths, with a span around each review."""
        return {
            path: TracedEndpoint(path, endpoint, self._tracer) if isinstance(endpoint, Endpoint) else endpoint
            for path, endpoint in endpoints.items()
        }

    def journal(self, journal: DecisionLog | None) -> DecisionLog:
        """A journal which tells what is written down to spans too."""
        return TracedJournal(journal)

    def runner(
        self, policies: Iterable[AnyPolicy], paced: Callable[[str, InlineState], None], meters: MetricRegistry
    ) -> "TracedRunner":
        """A runner, with a span around each call of a policy."""
        return TracedRunner(policies, paced, meters, self._tracer)


def _resource() -> Resource:
    """What the spans come from, as far as the environment does not tell it."""
    told = Resource.create()
    nameless = str(told.attributes[SERVICE_NAME]).startswith("unknown_service")
    return told.merge(Resource({SERVICE_NAME: "cluster-webhooks"})) if nameless else told


class TracedEndpoint:
    """An endpoint with a span around each review, in which everything is done for it."""

    def __init__(self, path: str, endpoint: Endpoint[Any], tracer: Tracer) -> None:
        self._path = path
        self._endpoint = endpoint
        self._tracer = tracer

    def answer(
        self, body: bytes, query: bytes, client: Client = ANONYMOUS, headers: Mapping[bytes, bytes] = NO_HEADERS
    ) -> JsonResponse | Awaitable[JsonResponse]:
        """Answer a review as the endpoint does."""
        context = propagate.extract(headers, Context(), _headers)
        span = self._tracer.start_span(
            f"POST {self._path}",
            context,
            SpanKind.SERVER,
            {"http.request.method": "POST", "http.route": self._path},
        )
        with trace.use_span(span):
            answer = self._endpoint.answer(body, query, client, headers)
        if isinstance(answer, JsonResponse):
            return _ended(span, answer)
        return self._later(span, answer)

    def reject(self, malformed: MalformedReview, body: bytes, client: Client = ANONYMOUS) -> JsonResponse:
        """Answer a body that is not acceptable, of which there is nothing to trace."""
        return self._endpoint.reject(malformed, body, client)

    async def _later(self, span: Span, answer: Awaitable[JsonResponse]) -> JsonResponse:
        with trace.use_span(span):
            return _ended(span, await answer)


def _ended(span: Span, answer: JsonResponse) -> JsonResponse:
    span.set_attribute("http.response.status_code", answer.code)
    if answer.code >= 500:
        span.set_status(StatusCode.ERROR)
    span.end()
    return answer


class TracedJournal(DecisionLog):
    """Tells the span of a review what is told in its record, and the record which trace it is part of.

    Args:
        journal: where records are written; None for nowhere.
    """

    def __init__(self, journal: DecisionLog | None) -> None:
        self._journal = journal

    def is_enabled_for(self, label: str) -> bool:
        """Whether somebody wants a record of reviews that come to this."""
        return trace.get_current_span().is_recording() or (
            self._journal is not None and self._journal.is_enabled_for(label)
        )

    def write(self, record: DecisionRecord) -> None:
        """Tell the span, and write the record down."""
        span = trace.get_current_span()
        for field in _TOLD:
            value = getattr(record, field)
            if value:
                span.set_attribute(f"webhooks.{field}", value)
        if self._journal is not None and self._journal.is_enabled_for(record.verdict):
            found = span.get_span_context()
            if found.is_valid:
                record.trace_id = trace.format_trace_id(found.trace_id)
            self._journal.write(record)


_TOLD = (*ReviewSummary.__struct_fields__, "kind", "verdict", "code", "message", "client")


class TracedRunner(PolicyExecutor):
    """A runner with a span around each call of a policy, in which the policy makes its own."""

    def __init__(
        self,
        policies: Iterable[AnyPolicy],
        paced: Callable[[str, InlineState], None],
        meters: MetricRegistry,
        tracer: Tracer,
    ) -> None:
        super().__init__(policies, paced, meters)
        self._tracer = tracer

    def run_inline(self, policy: AnyPolicy, review: Any, deadline: float) -> Result:
        """Run a policy here and now."""
        with self._span(policy) as told:
            return told(super().run_inline(policy, review, deadline))

    async def run(self, policy: AnyPolicy, review: Any, deadline: float) -> Result:
        """Run a policy, wherever it belongs, until the deadline at most."""
        if self.are_inline((policy,)):
            return await super().run(policy, review, deadline)  # which comes to `run_inline`
        with self._span(policy) as told:
            return told(await super().run(policy, review, deadline))

    @contextmanager
    def _span(self, policy: AnyPolicy) -> Iterator[Callable[[Result], Result]]:
        """A span that is to be told what came of the call; it is not where the policy is stopped and run again."""
        with self._tracer.start_as_current_span(
            f"policy {policy.name}",
            attributes={"webhooks.policy": policy.name, "webhooks.outcome": "stopped"},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:

            def told(result: Result) -> Result:
                span.set_attribute("webhooks.outcome", result.name)
                if result.failure is not None:
                    span.set_status(StatusCode.ERROR, result.name)
                return result

            yield told
