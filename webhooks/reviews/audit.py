"""Audit EventList, v1: records that a server sends along. Nothing is decided about them; any success is an answer."""

from typing import Literal

import msgspec

from webhooks.kube.api_groups import AUDIT
from webhooks.reviews import envelope as envelopes

KIND = "EventList"


class AuditEvent(msgspec.Struct, frozen=True):
    """One record, as far as it is counted here."""

    level: Literal["None", "Metadata", "Request", "RequestResponse"]
    stage: Literal["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]


class _Envelope(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815
    items: tuple[AuditEvent, ...]


def decode(body: bytes) -> tuple[AuditEvent, ...]:
    """Decode a batch.

    Raises:
        MalformedReview: the body is no EventList.
    """
    envelope = envelopes.decode_whole(_Envelope, body)
    if envelope.kind != KIND or envelope.apiVersion not in AUDIT:
        raise envelopes.unknown(envelope.apiVersion, envelope.kind, KIND)
    return envelope.items
