"""The decision log: a record for every review, of what it asked, what it was answered, by whom, and what that took.

A record holds names, and nothing of an object. It is written as one line of JSON, on the way of every review: so it is
one struct, encoded at once.
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


class Record(ReviewSummary, gc=False, omit_defaults=True, tag_field="logger", tag="webhooks.decisions"):
    """One decision; what it is about stands behind it.

    Attributes:
        time: when it was answered.
        level: as of other records of the log.
        message: why, as the caller is told it; of what was let pass, what was said against it and not enforced.
        kind: of the review.
        verdict: what it came to, as metrics call it.
        code: of the answer.
        ms: milliseconds from the request to the answer.
        client: who sent it.
        deciding: what those policies said that did more than let it pass, by their names.
        policies_ms: milliseconds of all policies that were asked, by their names.
        trace_id: the trace that it is part of.
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


def record(kind: Kind, about: Any, verdict: Verdict, name: str, code: int, client: Client, seconds: float) -> Record:
    """Make a record.

    Args:
        kind: of the policies that were asked.
        about: the review; or the body, where it could not be read as one, or was not.
        verdict: what the review came to.
        name: what that is called.
        code: of the answer.
        client: who sent it.
        seconds: from the request to the answer.
    """
    codec, consent, outcome = CODECS[kind], type(NO_POLICY_OUTCOME[kind]), verdict.outcome
    deciding, took, unenforced = {}, {}, []
    for result in verdict.results:
        took[result.policy.name] = int(result.seconds * 1e6) / 1e3
        if type(result.outcome) is not consent:
            deciding[result.policy.name] = result.name
            if result.policy.mode != "enforce" and isinstance(result.outcome, Deny):
                unenforced.append(f"{result.policy.name}: {result.outcome.message}")
    made = Record(
        datetime.now(UTC),
        "info",
        outcome.reason or "; ".join(unenforced) if type(outcome) is Allow else _reason(outcome),
        codec.kind,
        name,
        code,
        int(seconds * 1e6) / 1e3,
        "" if client is ANONYMOUS else str(client),
        deciding,
        took,
    )
    if isinstance(about, bytes):
        made.uid = codec.request_uid(about)
        return made
    codec.summarize(about, made)
    if type(outcome) is Authenticated:
        made.user = outcome.username
    if made.message or type(outcome) is Authenticated:
        secrets = codec.sensitive_values(about)
        made.message, made.user = redact(made.message, secrets), redact(made.user, secrets)
    return made


def _reason(outcome: Outcome | None) -> str:
    """Why it came to that."""
    if isinstance(outcome, Deny):
        return outcome.message
    if isinstance(outcome, Unauthenticated):
        return outcome.error
    return outcome.reason if isinstance(outcome, NoOpinion) else ""


class DecisionLog:
    """Writes decisions down.

    Args:
        put: takes a line.
        denials_only: whether reviews that were let pass are left out.
    """

    def __init__(self, put: Callable[[bytes], None], *, denials_only: bool = False) -> None:
        self._put = put
        self._unwanted = _PASSED if denials_only else frozenset()

    def wants(self, verdict: str) -> bool:
        """Whether reviews that come to this are written down."""
        return verdict not in self._unwanted

    def write(self, record: Record) -> None:
        """Write one down."""
        written = _encode(record)
        if len(written) > MAX_LINE or not written.isascii() or b"\x7f" in written:
            written = encode_record(msgspec.to_builtins(record))
        self._put(written)
