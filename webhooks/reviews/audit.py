"""Audit EventList, v1: events that an API server sends in batches. Any successful response is accepted."""

from typing import Literal

import msgspec

from webhooks.kube.api_groups import AUDIT
from webhooks.reviews.envelope import decode_fully, unsupported

KIND = "EventList"


class AuditEvent(msgspec.Struct, frozen=True):
    """An audit event, with the fields that are counted."""

    level: Literal["None", "Metadata", "Request", "RequestResponse"]
    stage: Literal["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]


class AuditEventList(msgspec.Struct, rename="camel"):
    """A batch of audit events. They are only counted."""

    kind: str
    api_version: str
    items: tuple[AuditEvent, ...]


def decode(body: bytes) -> tuple[AuditEvent, ...]:
    """Decode a batch of events.

    Raises:
        MalformedReview: the body is not an EventList.
    """
    batch = decode_fully(AuditEventList, body)
    if batch.kind != KIND or batch.api_version not in AUDIT:
        raise unsupported(batch.kind, batch.api_version, KIND)
    return batch.items
