"""The decision log: one record for each review, with the request, the decision, its reasons, and the time it took.

A record holds names, and nothing of an object's content. Writing it delays each review: so it is one struct, which is
encoded as one line of JSON at once.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from webhooks.auth.client import ANONYMOUS, Client
from webhooks.engine.verdicts import NO_POLICY_OUTCOME, Verdict
from webhooks.observability.log_writer import MAX_LINE, encode_record
from webhooks.observability.redaction import redact
from webhooks.reviews.codec import ReviewSummary
from webhooks.reviews.kinds import CODECS, Kind
from webhooks.reviews.outcomes import Allow, Authenticated, Deny, NoOpinion, Outcome, Unauthenticated

_PASSED = frozenset(("allow", "patch", "noopinion", "authenticated"))


class DecisionRecord(ReviewSummary, gc=False, omit_defaults=True, tag_field="logger", tag="webhooks.decisions"):
    """One decision, followed by the summary of its review.

    Attributes:
        time: the time of the response.
        level: as in other records of the log.
        message: the reason that the client gets; for an allowed request, the denials that were not enforced.
        kind: the kind of the review.
        verdict: the label of the verdict in metrics.
        code: the status code of the response.
        ms: milliseconds from the request to the response.
        client: the client that sent the review.
        deciding: the outcomes of policies that did not simply allow the request, by policy name.
        policies_ms: milliseconds of each policy, by policy name.
        trace_id: the ID of its trace.
    """

    time: datetime
    level: str
    message: str
    kind: str
    verdict: str
    code: int
    ms: float
    client: str = ""
    deciding: Mapping[str, str] = msgspec.field(default_factory=dict)
    policies_ms: Mapping[str, float] = msgspec.field(default_factory=dict)
    trace_id: str = ""


_encode = msgspec.json.Encoder().encode


def build_record(
    kind: Kind, subject: Any, verdict: Verdict[Any], label: str, code: int, client: Client, seconds: float
) -> DecisionRecord:
    """Build a record.

    Args:
        kind: the kind of the policies.
        subject: the review; or the body, if it was malformed or not decoded.
        verdict: the verdict.
        label: the label of the verdict in metrics.
        code: the status code of the response.
        client: the client that sent the review.
        seconds: from the request to the response.
    """
    codec, consent, outcome = CODECS[kind], type(NO_POLICY_OUTCOME[kind]), verdict.outcome
    deciding, policies_ms, unenforced = {}, {}, []
    for result in verdict.results:
        policies_ms[result.policy.name] = int(result.seconds * 1e6) / 1e3
        if type(result.outcome) is not consent:
            deciding[result.policy.name] = result.name
            if result.policy.mode != "enforce" and isinstance(result.outcome, Deny):
                unenforced.append(f"{result.policy.name}: {result.outcome.message}")
    record = DecisionRecord(
        datetime.now(UTC),
        "info",
        outcome.reason or "; ".join(unenforced) if type(outcome) is Allow else _reason(outcome),
        codec.kind,
        label,
        code,
        int(seconds * 1e6) / 1e3,
        "" if client is ANONYMOUS else str(client),
        deciding,
        policies_ms,
    )
    if isinstance(subject, bytes):
        record.uid = codec.request_uid(subject)
        return record
    codec.summarize(subject, record)
    if type(outcome) is Authenticated:
        record.user = outcome.username
    if record.message or type(outcome) is Authenticated:
        secrets = codec.sensitive_values(subject)
        record.message, record.user = redact(record.message, secrets), redact(record.user, secrets)
    return record


def _reason(outcome: Outcome | None) -> str:
    if isinstance(outcome, Deny):
        return outcome.message
    if isinstance(outcome, Unauthenticated):
        return outcome.error
    return outcome.reason if isinstance(outcome, NoOpinion) else ""


class DecisionLog:
    """Writes records.

    Args:
        write_line: writes a line.
        denials_only: whether to leave out reviews that were not denied.
    """

    def __init__(self, write_line: Callable[[bytes], None], *, denials_only: bool = False) -> None:
        self._write_line = write_line
        self._excluded = _PASSED if denials_only else frozenset()

    def is_enabled_for(self, label: str) -> bool:
        """Whether reviews with this verdict are logged."""
        return label not in self._excluded

    def write(self, record: DecisionRecord) -> None:
        """Write a record."""
        data = _encode(record)
        if len(data) > MAX_LINE or not data.isascii() or b"\x7f" in data:
            data = encode_record(msgspec.to_builtins(record))
        self._write_line(data)
