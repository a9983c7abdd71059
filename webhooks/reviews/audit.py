"""Audit EventList, v1: events that an API server sends in batches. Nothing is decided; any success is a response."""

from typing import Literal

import msgspec

from webhooks.kube.api_groups import AUDIT
from webhooks.reviews.envelope import check_version, decode_fully

KIND = "EventList"


class AuditEvent(msgspec.Struct, frozen=True):
    """An audit event, with the fields that are counted."""

    level: Literal["None", "Metadata", "Request", "RequestResponse"]
    stage: Literal["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]


class AuditEventList(msgspec.Struct, rename="camel"):
    """A batch of audit events. They are counted, and nothing is decided."""

    kind: str
    api_version: str
    items: tuple[AuditEvent, ...]


def decode(body: bytes) -> tuple[AuditEvent, ...]:
    """Decode a batch of events.

    Raises:
        MalformedReview: the body is not an EventList.
    """
    batch = decode_fully(AuditEventList, body)
    check_version(batch.kind, batch.api_version, KIND, AUDIT)
    return batch.items
