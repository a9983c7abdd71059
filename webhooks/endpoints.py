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
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from webhooks.dispatch import Dispatcher, Verdict
from webhooks.durations import parse_duration
from webhooks.errors import REASONS, MalformedReview
from webhooks.metrics import Metrics
from webhooks.policy import Kind, Policy
from webhooks.wire import admission, audit, authentication, authorization, envelopes, images
from webhooks.wire.envelopes import MAX_BODY

logger = logging.getLogger("webhooks.reviews")


class Answer(msgspec.Struct):
    """An HTTP answer: always JSON.

    Attributes:
        code: the HTTP code.
        body: the JSON document.
        close: whether the connection cannot be used again.
    """

    code: int
    body: bytes
    close: bool = False


class Wire(Protocol):
    """A protocol, as the modules of `webhooks.wire` are."""

    KIND: str

    @staticmethod
    def decode(body: bytes) -> Any:
        """From bytes to a review."""


class _Status(msgspec.Struct):
    message: str
    reason: str
    code: int
    kind: str = "Status"
    apiVersion: str = "v1"  # noqa: N815
    metadata: dict[str, str] = {}
    status: str = "Failure"


_encode = msgspec.json.Encoder().encode


def error(code: int, message: str, *, close: bool = False) -> Answer:
    """An HTTP error, as a Status that the caller's client understands."""
    return Answer(code, _encode(_Status(message, REASONS.get(code, "Unknown"), code)), close)


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
        self, wire: Any, kind: Kind, dispatcher: Dispatcher, metrics: Metrics, only: Policy[Any, Any] | None = None
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
        except MalformedReview as malformed:
            return self.refuse(malformed, body)
        except Exception as unexpected:
            return self._fail(unexpected, body)
        try:
            verdict = self._decide(self._kind, review, _timeout(query), self._only)
            if type(verdict) is Verdict:
                return self._finish(review, verdict)
            return self._wait(review, verdict, body)  # type: ignore[arg-type]
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
        self._metrics.record(self._wire.KIND, review, verdict)
        return answer

    def refuse(self, malformed: MalformedReview, body: bytes) -> Answer:
        """Answer a body that is no acceptable review.

        Args:
            malformed: why.
            body: the body, or as much of it as came.
        """
        logger.warning("refused a malformed %s: %s", self._wire.KIND, malformed)
        denial = admission.encode_malformed(body, malformed) if self._wire is admission else None
        self._metrics.count(self._wire.KIND, "malformed", malformed.code)
        close = malformed.code == 413
        if denial is None:
            return error(malformed.code, f"the review was not understood: {malformed}", close=close)
        return Answer(200, denial, close)

    def _fail(self, unexpected: Exception, body: bytes) -> Answer:
        logger.error("a review could not be answered", exc_info=unexpected)
        return self.refuse(MalformedReview("an internal error, which the server's log tells", code=500), body)


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


class Head(msgspec.Struct):
    """What the headers of a request say of its body.

    Attributes:
        refusal: the answer to a body in a form that is not taken; None where it is JSON as it stands.
        limit: how many bytes to read before it is refused: few of a body that is announced as too large, just enough to
            tell whom to answer; none where the caller waits to be asked for it.
    """

    refusal: Answer | None
    limit: int


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    """Read what a request's headers, with lower-case names, say of its body."""
    media_type, encoding, limit, waits = b"", b"identity", MAX_BODY, False
    for name, value in headers:
        if name == b"content-type":
            media_type = value
        elif name == b"content-encoding":
            encoding = value
        elif name == b"content-length" and int(value) > MAX_BODY:
            limit = envelopes.HEAD
        elif name == b"expect":
            waits = True
    if waits and limit < MAX_BODY:
        limit = 0
    if encoding != b"identity" and encoding.lower() not in (b"", b"identity"):
        return Head(error(415, "the body must come without content encoding", close=True), limit)
    if media_type != b"application/json" and media_type.split(b";")[0].strip().lower() != b"application/json":
        return Head(error(415, "the body must be application/json", close=True), limit)
    return Head(None, limit)


def too_large() -> MalformedReview:
    """The error of a body over the limit."""
    return MalformedReview(f"the body is larger than {MAX_BODY} bytes", code=413)


def _timeout(query: bytes) -> float | None:
    """The seconds of ``timeout=`` in a query; a value that is no duration says nothing."""
    found = _timeouts.get(query)
    if found is None:
        found = _parse_timeout(query)
        if len(_timeouts) < _MAX_TIMEOUTS:
            _timeouts[query] = found
    return found or None


_MAX_TIMEOUTS = 256
_timeouts: dict[bytes, float] = {}


def _parse_timeout(query: bytes) -> float:
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if name == b"timeout":
            try:
                return max(0, parse_duration(value.decode())) / 1e9
            except (ValueError, UnicodeDecodeError):
                return 0
    return 0
