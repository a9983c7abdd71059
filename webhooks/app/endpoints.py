"""The review endpoints: from a request body to a response. They know HTTP by its status codes only.

The response to each result:

    result                             AdmissionReview      ImageReview   SubjectAccessReview, TokenReview
    ---------------------------------  -------------------  ------------  --------------------------------
    a verdict                          200                  200           200
    a policy failed, on_error unset    200, denied 500/504  200, denied   500: not cached, repeated
    a policy failed, on_error="deny"   200, denied 500/504  200, denied   200, denied / unauthenticated
    a policy failed, on_error="allow"  200, without its outcome, with a warning and an annotation
    malformed, or over a limit         200, denied with the error's code if the body has a uid;
                                       else an HTTP error with that code: 400, 413, 422
    no slot in time                    200, denied 503      200, denied   503
    an internal error                  200, denied 500      500           500
    the queue is full                  429, before the body is decoded
    wrong media type or encoding       415
    wrong method                       405
    an unknown path                    404

After an HTTP error the client applies its failure policy, which may allow the request without a review; hence the
denials. Clients cache the responses of the last two kinds, but not HTTP errors; hence the errors there.
"""

import logging
from collections.abc import Awaitable, Mapping
from functools import partial
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

from webhooks.app.decision_log import DecisionLog, build_record
from webhooks.app.review_metrics import ReviewMetrics, verdict_label
from webhooks.auth.client import ANONYMOUS, Client
from webhooks.engine.dispatcher import Dispatcher, Verdict
from webhooks.engine.invocation import Result, release_frames
from webhooks.errors import MalformedReview, Overloaded
from webhooks.http.headers import NO_HEADERS, parse_timeout
from webhooks.http.responses import JsonResponse, error_response
from webhooks.policy.model import AnyPolicy
from webhooks.reviews import audit
from webhooks.reviews.codec import Codec, Review
from webhooks.reviews.kinds import CODECS, Kind
from webhooks.reviews.outcomes import Deny

logger = logging.getLogger("webhooks.reviews")
policy_logger = logging.getLogger("webhooks.policies")

R = TypeVar("R", bound=Review)


class AnyEndpoint(Protocol):
    """Answers the requests to a path."""

    def answer(
        self, body: bytes, query: bytes, client: Client = ANONYMOUS, headers: Mapping[bytes, bytes] = NO_HEADERS
    ) -> JsonResponse | Awaitable[JsonResponse]:
        """Answer a request: see `Endpoint.answer`."""

    def reject(self, malformed: MalformedReview, body: bytes, client: Client = ANONYMOUS) -> JsonResponse:
        """Answer a request with an unacceptable body: see `Endpoint.reject`."""


class Endpoint(Generic[R]):
    """A review path.

    Args:
        kind: the kind of policies that decide its reviews.
        dispatcher: runs the policies.
        metrics: counts the reviews.
        decision_log: logs the reviews; None for no log.
        only: the only policy that decides its reviews; None for all of the kind.
    """

    def __init__(
        self,
        kind: Kind,
        dispatcher: Dispatcher,
        metrics: ReviewMetrics,
        decision_log: DecisionLog | None = None,
        only: AnyPolicy | None = None,
    ) -> None:
        self._codec: Codec[R, Any] = CODECS[kind]
        self._kind: Kind = kind
        self._decide = dispatcher.decide
        self._limiter = dispatcher.limiter
        policies = [policy for policy in dispatcher.registry if policy.kind == kind] if only is None else [only]
        self._are_all_inline = partial(dispatcher.executor.are_inline, policies)
        self._metrics = metrics
        self._decision_log = decision_log
        self._only = only

    def answer(
        self,
        body: bytes,
        query: bytes,
        client: Client = ANONYMOUS,
        headers: Mapping[bytes, bytes] = NO_HEADERS,  # noqa: ARG002  # for `webhooks.app.tracing`
    ) -> JsonResponse | Awaitable[JsonResponse]:
        """Answer a review: immediately if no policy must be awaited. Never raises an exception.

        Args:
            body: the request's body.
            query: the request's query string, still encoded; its ``timeout=10s`` is used.
            client: the client that sent the request.
            headers: the request's headers, by their names in lower case.
        """
        started = perf_counter()
        if self._limiter.is_saturated and not self._are_all_inline():
            return self._shed(body, client, started)
        review = None
        try:
            review = self._codec.decode(body)
            verdict = self._decide(self._kind, review, parse_timeout(query), self._only)
            if isinstance(verdict, Verdict):
                return self._respond(review, verdict, client, started)
        except Exception as error:
            return self._respond_to_error(error, review, body, client, started)
        return self._wait(review, verdict, body, client, started)

    async def _wait(
        self, review: R, verdict: Awaitable[Verdict[Any]], body: bytes, client: Client, started: float
    ) -> JsonResponse:
        try:
            return self._respond(review, await verdict, client, started)
        except Exception as error:
            return self._respond_to_error(error, review, body, client, started)

    def _respond(self, review: R, verdict: Verdict[Any], client: Client, started: float) -> JsonResponse:
        if verdict.outcome is None:
            response = error_response(500, "a policy failed; see the server's log")
        else:
            response = JsonResponse(200, self._codec.encode(review, verdict.outcome, verdict.patch))
        name, code = verdict_label(verdict)
        self._record(review, verdict, name, code, client, started)
        for result in verdict.results:
            if result.failure is not None:
                self._log_failure(review, result, client)
        return response

    def reject(self, malformed: MalformedReview, body: bytes, client: Client = ANONYMOUS) -> JsonResponse:
        """Answer a request whose body is not an acceptable review.

        Args:
            malformed: the reason.
            body: the body, or the part of it that was received.
            client: the client that sent the request.
        """
        return self._reject(malformed, body, client, perf_counter())

    def _reject(self, malformed: MalformedReview, body: bytes, client: Client, started: float) -> JsonResponse:
        logger.warning("rejected a malformed %s: %s", self._codec.kind, malformed, extra={"client": str(client)})
        return self._deny(body, f"malformed review: {malformed}", "malformed", malformed.code, client, started)

    def _shed(self, body: bytes, client: Client, started: float) -> JsonResponse:
        """Reject a review before it is decoded, because the queue is full; the client may repeat it after a moment."""
        message = "too many reviews are waiting"
        self._record(body, Verdict(Deny(message)), "shed", 429, client, started)
        return error_response(429, message)

    def _respond_to_error(
        self, error: Exception, review: R | None, body: bytes, client: Client, started: float
    ) -> JsonResponse:
        if isinstance(error, MalformedReview):
            release_frames(error)
            return self._reject(error, body, client, started)
        if isinstance(error, Overloaded) and review is not None:
            return self._give_up(review, client, started)
        logger.error("failed to answer a %s", self._codec.kind, exc_info=error, extra={"client": str(client)})
        return self._deny(body, "internal error; see the server's log", "error", 500, client, started)

    def _give_up(self, review: R, client: Client, started: float) -> JsonResponse:
        """Answer a review that got no slot in time; its client no longer waits either."""
        message = "the server is overloaded: no slot was free in time"
        denial = Deny(message, reason="ServiceUnavailable", code=503)
        self._record(review, Verdict(denial), "shed", 503, client, started)
        if self._kind in _CACHED_KINDS:
            return error_response(503, message)
        return JsonResponse(200, self._codec.encode(review, denial))

    def _deny(self, body: bytes, message: str, name: str, code: int, client: Client, started: float) -> JsonResponse:
        """Deny a body that is not a review, if the protocol can; else return an HTTP error."""
        self._record(body, Verdict(Deny(message)), name, code, client, started)
        denial = self._codec.encode_denial(body, message, code)
        close = code == 413
        return error_response(code, message, close=close) if denial is None else JsonResponse(200, denial, close)

    def _record(
        self, subject: R | bytes, verdict: Verdict[Any], name: str, code: int, client: Client, started: float
    ) -> None:
        """Record the response to a review, or to a body that is not a review, in the metrics and the decision log."""
        seconds = perf_counter() - started
        self._metrics.record(self._codec.kind, name, code, client, verdict.results, seconds)
        if self._decision_log is not None and self._decision_log.is_enabled_for(name):
            self._decision_log.write(build_record(self._kind, subject, verdict, name, code, client, seconds))

    def _log_failure(self, review: R, result: Result, client: Client) -> None:
        assert result.failure is not None
        policy_logger.error(
            "policy %s failed on %r: %s",
            result.policy.name,
            review,
            result.failure,
            exc_info=result.failure.__cause__,
            extra={
                "policy": result.policy.name,
                "uid": getattr(review, "uid", ""),
                "client": str(client),
                "secrets": self._codec.sensitive_values(review),
            },
        )
        release_frames(result.failure)


class AuditEndpoint:
    """The path for audit events, which are counted."""

    def __init__(self, metrics: ReviewMetrics) -> None:
        self._metrics = metrics

    def answer(
        self,
        body: bytes,
        query: bytes,  # noqa: ARG002
        client: Client = ANONYMOUS,
        headers: Mapping[bytes, bytes] = NO_HEADERS,  # noqa: ARG002
    ) -> JsonResponse:
        """Count a batch of events. Never raises an exception."""
        try:
            events = audit.decode(body)
        except MalformedReview as malformed:
            return self.reject(malformed, body, client)
        self._metrics.count_audit_events(events)
        return JsonResponse(200, b"{}")

    def reject(self, malformed: MalformedReview, body: bytes, client: Client = ANONYMOUS) -> JsonResponse:  # noqa: ARG002
        """Answer a request whose body is not a batch of events."""
        logger.warning("rejected a malformed %s: %s", audit.KIND, malformed, extra={"client": str(client)})
        self._metrics.count(audit.KIND, "malformed", malformed.code)
        return error_response(malformed.code, str(malformed), close=malformed.code == 413)


PATHS: tuple[tuple[str, Kind], ...] = (
    ("/admission/mutate", "mutating"),
    ("/admission/validate", "validating"),
    ("/authorize", "authorizing"),
    ("/authenticate", "authenticating"),
    ("/images", "image_policy"),
)
_CACHED_KINDS: tuple[Kind, ...] = ("authorizing", "authenticating")  # clients cache their responses
_POLICY_PATHS: Mapping[str, str] = {"mutating": "/admission/mutate", "validating": "/admission/validate"}


def build_endpoints(
    dispatcher: Dispatcher, metrics: ReviewMetrics, decision_log: DecisionLog | None = None
) -> Mapping[str, AnyEndpoint]:
    """Build the endpoints of a server by their paths.

    A mutating or validating policy has a path with its name, and one with its DNS name unless another policy has it.
    """
    endpoints: dict[str, AnyEndpoint] = {"/audit": AuditEndpoint(metrics)}
    for path, kind in PATHS:
        endpoints[path] = Endpoint(kind, dispatcher, metrics, decision_log)
    policies = [policy for policy in dispatcher.registry if policy.kind in _POLICY_PATHS]
    for policy in policies:
        path = f"{_POLICY_PATHS[policy.kind]}/{policy.name}"
        endpoints[path] = Endpoint(policy.kind, dispatcher, metrics, decision_log, policy)
    for policy in policies:
        prefix = _POLICY_PATHS[policy.kind]
        endpoints.setdefault(f"{prefix}/{policy.dns_name}", endpoints[f"{prefix}/{policy.name}"])
    return endpoints
