"""The review endpoints: a body comes in, an answer goes out. HTTP is known here by its codes alone.

What each result becomes, in one table:

    what happened                      AdmissionReview      ImageReview   SubjectAccessReview, TokenReview
    ---------------------------------  -------------------  ------------  --------------------------------
    a verdict                          200                  200           200
    a policy failed, on_error unset    200, denied 500/504  200, denied   500: not kept, asked again
    a policy failed, on_error="deny"   200, denied 500/504  200, denied   200, denied / unauthenticated
    a policy failed, on_error="allow"  200, its say is left out, and a warning and an annotation say so
    no review, or beyond the limits    200, denied with the error's code where the uid can be told,
                                       else an HTTP error of that code: 400, 413, 422
    no turn in time                    200, denied 503      200, denied   503
    a failure of our own               200, denied 500      500           500
    more reviews wait than may         429, before it is decoded
    wrong media type or encoding       415
    wrong method                       405
    a path that is none of ours        404

An HTTP error obeys the caller's failure policy, which may let a request pass unreviewed; hence the denials. Answers to
the last two kinds are kept by the caller, errors are not; hence the errors there.
"""

import logging
from collections.abc import Awaitable, Mapping
from functools import partial
from time import perf_counter
from typing import Any, Protocol

from webhooks.app.decision_log import DecisionLog, record
from webhooks.app.review_metrics import Metrics, summary
from webhooks.auth.client import ANONYMOUS, Client
from webhooks.engine.dispatcher import Dispatcher, Verdict
from webhooks.engine.invocation import Result
from webhooks.errors import MalformedReview, Overloaded
from webhooks.http.headers import NO_HEADERS, parse_timeout
from webhooks.http.responses import JsonResponse, error_response
from webhooks.policy.model import AnyPolicy
from webhooks.reviews import audit
from webhooks.reviews.kinds import CODECS, Kind
from webhooks.reviews.outcomes import Deny

logger = logging.getLogger("webhooks.reviews")
policy_logger = logging.getLogger("webhooks.policies")


class AnyEndpoint(Protocol):
    """Answers what is posted to a path."""

    def answer(
        self, body: bytes, query: bytes, client: Client = ANONYMOUS, headers: Mapping[bytes, bytes] = NO_HEADERS
    ) -> JsonResponse | Awaitable[JsonResponse]:
        """Answer a body: see `Endpoint.answer`."""

    def refuse(self, malformed: MalformedReview, body: bytes, client: Client = ANONYMOUS) -> JsonResponse:
        """Answer a body that is not acceptable: see `Endpoint.refuse`."""


class Endpoint:
    """One path: the protocol that is spoken there and the policies that answer.

    Args:
        kind: the policies to ask.
        dispatcher: who asks them.
        metrics: where it is counted.
        journal: where it is written down; None for nowhere.
        only: the one policy to ask.
    """

    def __init__(
        self,
        kind: Kind,
        dispatcher: Dispatcher,
        metrics: Metrics,
        journal: DecisionLog | None = None,
        only: AnyPolicy | None = None,
    ) -> None:
        self._codec = CODECS[kind]
        self._kind: Kind = kind
        self._decide = dispatcher.decide
        self._turns = dispatcher.turns
        self._all_in_place = partial(dispatcher.runner.in_place, _asked(dispatcher, kind, only))
        self._metrics = metrics
        self._journal = journal
        self._only = only

    def answer(
        self,
        body: bytes,
        query: bytes,
        client: Client = ANONYMOUS,
        headers: Mapping[bytes, bytes] = NO_HEADERS,  # noqa: ARG002  # see `webhooks.app.tracing`
    ) -> JsonResponse | Awaitable[JsonResponse]:
        """Answer a review: at once where no policy has to be waited for. Raises nothing.

        Args:
            body: the request's body.
            query: the request's query, undecoded: ``timeout=10s`` is looked for.
            client: who sent it.
            headers: the request's, by their names in lower case.
        """
        started = perf_counter()
        if self._turns.full and not self._all_in_place():
            return self._send_away(body, client, started)
        try:
            review = self._codec.decode(body)
            verdict = self._decide(self._kind, review, parse_timeout(query), self._only)
            if isinstance(verdict, Verdict):
                return self._finish(review, verdict, client, started)
            return self._wait(review, verdict, body, client, started)
        except MalformedReview as malformed:
            return self._refuse(malformed, body, client, started)
        except Overloaded:
            return self._turn_down(review, client, started)
        except Exception as unexpected:
            return self._fail(unexpected, body, client, started)

    async def _wait(
        self, review: Any, verdict: Awaitable[Verdict], body: bytes, client: Client, started: float
    ) -> JsonResponse:
        try:
            return self._finish(review, await verdict, client, started)
        except MalformedReview as malformed:
            return self._refuse(malformed, body, client, started)
        except Overloaded:
            return self._turn_down(review, client, started)
        except Exception as unexpected:
            return self._fail(unexpected, body, client, started)

    def _finish(self, review: Any, verdict: Verdict, client: Client, started: float) -> JsonResponse:
        if verdict.outcome is None:
            answer = error_response(500, "a policy failed; the server's log says which and why")
        elif verdict.patch is not None:
            answer = JsonResponse(200, self._codec.encode(review, verdict.outcome, verdict.patch))
        else:
            answer = JsonResponse(200, self._codec.encode(review, verdict.outcome))
        name, code = summary(verdict)
        self._tell(review, verdict, name, code, client, started)
        for result in verdict.results:
            if result.failure is not None:
                self._log_failure(review, result, client)
        return answer

    def refuse(self, malformed: MalformedReview, body: bytes, client: Client = ANONYMOUS) -> JsonResponse:
        """Answer a body that is no acceptable review.

        Args:
            malformed: why.
            body: the body, or as much of it as came.
            client: who sent it.
        """
        return self._refuse(malformed, body, client, perf_counter())

    def _refuse(self, malformed: MalformedReview, body: bytes, client: Client, started: float) -> JsonResponse:
        logger.warning("refused a malformed %s: %s", self._codec.kind, malformed, extra={"client": str(client)})
        message = f"the review was not understood: {malformed}"
        return self._deny(body, message, "malformed", malformed.code, client, started)

    def _send_away(self, body: bytes, client: Client, started: float) -> JsonResponse:
        """Answer before anything has been done for a review: whoever sent it is to come again in a moment."""
        message = "too many reviews wait already"
        self._tell(body, Verdict(Deny(message)), "shed", 429, client, started)
        return error_response(429, message)

    def _turn_down(self, review: Any, client: Client, started: float) -> JsonResponse:
        """Answer a review that was taken, and had no turn in time: its sender waits no longer either."""
        message = "the server is overloaded: there was no time for this review"
        denial = Deny(message, reason="ServiceUnavailable", code=503)
        self._tell(review, Verdict(denial), "shed", 503, client, started)
        return (
            error_response(503, message)
            if self._kind in _KEPT
            else JsonResponse(200, self._codec.encode(review, denial))
        )

    def _fail(self, unexpected: Exception, body: bytes, client: Client, started: float) -> JsonResponse:
        extra = {"client": str(client)}
        logger.error("a %s could not be answered", self._codec.kind, exc_info=unexpected, extra=extra)
        return self._deny(body, "an internal error; the server's log says which", "error", 500, client, started)

    def _deny(self, body: bytes, message: str, name: str, code: int, client: Client, started: float) -> JsonResponse:
        """A denial where the protocol has one for a body that cannot be taken for a review; else an HTTP error."""
        self._tell(body, Verdict(Deny(message)), name, code, client, started)
        denial = self._codec.encode_denial(body, message, code)
        close = code == 413
        return error_response(code, message, close=close) if denial is None else JsonResponse(200, denial, close)

    def _tell(self, about: Any, verdict: Verdict, name: str, code: int, client: Client, started: float) -> None:
        """Tell what became of a review, or of a body: to those who count, and to those who want it in writing."""
        seconds = perf_counter() - started
        self._metrics.record(self._codec.kind, name, code, client, verdict.results, seconds)
        if self._journal is not None and self._journal.wants(name):
            self._journal.write(record(self._kind, about, verdict, name, code, client, seconds))

    def _log_failure(self, review: Any, result: Result, client: Client) -> None:
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


def _asked(dispatcher: Dispatcher, kind: Kind, only: AnyPolicy | None) -> list[AnyPolicy]:
    """The policies that may be asked."""
    return [policy for policy in dispatcher.registry if policy.kind == kind] if only is None else [only]


class AuditEndpoint:
    """The path for audit events: nothing is decided, they are counted."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def answer(
        self,
        body: bytes,
        query: bytes,  # noqa: ARG002
        client: Client = ANONYMOUS,
        headers: Mapping[bytes, bytes] = NO_HEADERS,  # noqa: ARG002
    ) -> JsonResponse:
        """Take a batch of events. Raises nothing."""
        try:
            events = audit.decode(body)
        except MalformedReview as malformed:
            return self.refuse(malformed, body, client)
        self._metrics.count_audit_events(events)
        return JsonResponse(200, b"{}")

    def refuse(self, malformed: MalformedReview, body: bytes, client: Client = ANONYMOUS) -> JsonResponse:  # noqa: ARG002
        """Answer a body that is no batch of events."""
        logger.warning("refused a malformed %s: %s", audit.KIND, malformed, extra={"client": str(client)})
        self._metrics.count(audit.KIND, "malformed", malformed.code)
        return error_response(malformed.code, str(malformed), close=malformed.code == 413)


def endpoints(
    dispatcher: Dispatcher, metrics: Metrics, journal: DecisionLog | None = None
) -> Mapping[str, AnyEndpoint]:
    """All review paths of a server; one policy's has its name, or that in DNS's form where it is no other's."""
    found: dict[str, AnyEndpoint] = {"/audit": AuditEndpoint(metrics)}
    for path, kind in PATHS:
        found[path] = Endpoint(kind, dispatcher, metrics, journal)
    alone = [policy for policy in dispatcher.registry if policy.kind in _ONE_POLICY]
    for policy in alone:
        found[_path_of(policy, policy.name)] = Endpoint(policy.kind, dispatcher, metrics, journal, policy)
    for policy in alone:
        found.setdefault(_path_of(policy, policy.dns_name), found[_path_of(policy, policy.name)])
    return found


def _path_of(policy: AnyPolicy, name: str) -> str:
    return f"{_ONE_POLICY[policy.kind]}/{name}"


PATHS: tuple[tuple[str, Kind], ...] = (
    ("/admission/mutate", "mutating"),
    ("/admission/validate", "validating"),
    ("/authorize", "authorizing"),
    ("/authenticate", "authenticating"),
    ("/images", "image_policy"),
)
_KEPT: tuple[Kind, ...] = ("authorizing", "authenticating")  # whose answers callers keep, but not errors
_ONE_POLICY: Mapping[str, str] = {"mutating": "/admission/mutate", "validating": "/admission/validate"}
