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
    a failure of our own               200, denied 500      500           500
    wrong media type or encoding       415
    wrong method                       405
    a path that is none of ours        404

An HTTP error obeys the caller's failure policy, which may let a request pass unreviewed; hence the denials. Answers to
the last two kinds are kept by the caller, errors are not; hence the errors there.
"""

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, TypeAlias

from webhooks.answers import Answer, error
from webhooks.dispatch import Dispatcher, Verdict
from webhooks.errors import MalformedReview
from webhooks.heads import timeout
from webhooks.metrics import Metrics
from webhooks.policy import AnyPolicy, Kind
from webhooks.running import Result
from webhooks.wire import admission, audit, authentication, authorization, images

logger = logging.getLogger("webhooks.reviews")
policy_logger = logging.getLogger("webhooks.policies")


class Endpoint:
    """One path: the protocol that is spoken there and the policies that answer.

    Args:
        wire: the protocol.
        kind: the policies to ask.
        dispatcher: who asks them.
        metrics: where it is counted.
        only: the one policy to ask.
    """

    def __init__(
        self, wire: Any, kind: Kind, dispatcher: Dispatcher, metrics: Metrics, only: AnyPolicy | None = None
    ) -> None:
        self._wire = wire
        self._kind: Kind = kind
        self._decide = dispatcher.decide
        self._metrics = metrics
        self._only = only

    def answer(self, body: bytes, query: bytes) -> Answer | Awaitable[Answer]:
        """Answer a review: at once where no policy has to be waited for. Raises nothing.

        Args:
            body: the request's body.
            query: the request's query, undecoded: ``timeout=10s`` is looked for.
        """
        try:
            review = self._wire.decode(body)
            verdict = self._decide(self._kind, review, timeout(query), self._only)
            if isinstance(verdict, Verdict):
                return self._finish(review, verdict)
            return self._wait(review, verdict, body)
        except MalformedReview as malformed:
            return self.refuse(malformed, body)
        except Exception as unexpected:
            return self._fail(unexpected, body)

    async def _wait(self, review: Any, verdict: Awaitable[Verdict], body: bytes) -> Answer:
        try:
            return self._finish(review, await verdict)
        except MalformedReview as malformed:
            return self.refuse(malformed, body)
        except Exception as unexpected:
            return self._fail(unexpected, body)

    def _finish(self, review: Any, verdict: Verdict) -> Answer:
        if verdict.outcome is None:
            answer = error(500, "a policy failed; the server's log says which and why")
        elif verdict.patch is not None:
            answer = Answer(200, self._wire.encode(review, verdict.outcome, verdict.patch))
        else:
            answer = Answer(200, self._wire.encode(review, verdict.outcome))
        self._metrics.record(self._wire.KIND, verdict)
        for result in verdict.results:
            if result.failure is not None:
                _log_failure(review, result)
        return answer

    def refuse(self, malformed: MalformedReview, body: bytes) -> Answer:
        """Answer a body that is no acceptable review.

        Args:
            malformed: why.
            body: the body, or as much of it as came.
        """
        logger.warning("refused a malformed %s: %s", self._wire.KIND, malformed)
        self._metrics.count(self._wire.KIND, "malformed", malformed.code)
        return self._deny(body, f"the review was not understood: {malformed}", malformed.code)

    def _fail(self, unexpected: Exception, body: bytes) -> Answer:
        logger.error("a %s could not be answered", self._wire.KIND, exc_info=unexpected)
        self._metrics.count(self._wire.KIND, "error", 500)
        return self._deny(body, "an internal error; the server's log says which", 500)

    def _deny(self, body: bytes, message: str, code: int) -> Answer:
        """A denial where the protocol has one for a body that cannot be taken for a review; else an HTTP error."""
        denial = admission.encode_denial(body, message, code) if self._wire is admission else None
        close = code == 413
        return error(code, message, close=close) if denial is None else Answer(200, denial, close)


def _log_failure(review: Any, result: Result) -> None:
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
            "secret": getattr(review, "token", ""),  # left out of the record, wherever it stands
        },
    )


class AuditEndpoint:
    """The path for audit events: nothing is decided, they are counted."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def answer(self, body: bytes, query: bytes) -> Answer:  # noqa: ARG002
        """Take a batch of events. Raises nothing."""
        try:
            events = audit.decode(body)
        except MalformedReview as malformed:
            return self.refuse(malformed, body)
        self._metrics.count_audit_events(events)
        return Answer(200, b"{}")

    def refuse(self, malformed: MalformedReview, body: bytes) -> Answer:  # noqa: ARG002
        """Answer a body that is no batch of events."""
        logger.warning("refused a malformed %s: %s", audit.KIND, malformed)
        self._metrics.count(audit.KIND, "malformed", malformed.code)
        return error(malformed.code, str(malformed), close=malformed.code == 413)


AnyEndpoint: TypeAlias = Endpoint | AuditEndpoint


def endpoints(dispatcher: Dispatcher, metrics: Metrics) -> Mapping[str, AnyEndpoint]:
    """All review paths of a server."""
    found: dict[str, AnyEndpoint] = {"/audit": AuditEndpoint(metrics)}
    for path, wire, kind in _PATHS:
        found[path] = Endpoint(wire, kind, dispatcher, metrics)
    for policy in dispatcher.registry:
        if policy.kind in _ONE_POLICY:
            found[f"{_ONE_POLICY[policy.kind]}/{policy.name}"] = Endpoint(
                admission, policy.kind, dispatcher, metrics, policy
            )
    return found


_PATHS: tuple[tuple[str, Any, Kind], ...] = (
    ("/admission/mutate", admission, "mutating"),
    ("/admission/validate", admission, "validating"),
    ("/authorize", authorization, "authorizing"),
    ("/authenticate", authentication, "authenticating"),
    ("/images", images, "image_policy"),
)
_ONE_POLICY: Mapping[str, str] = {"mutating": "/admission/mutate", "validating": "/admission/validate"}
