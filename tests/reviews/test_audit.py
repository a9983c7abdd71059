"""Batches of audit events are decoded strictly."""

from collections import Counter

import pytest

from webhooks.errors import MalformedReview
from webhooks.reviews import audit
from webhooks.reviews.audit import AuditEvent

from ..support.builders import GROUPS, Json, encode_body, recorded_bodies, with_api_version

RECORDED = recorded_bodies("/audit")
EVENT = {"level": "Metadata", "auditID": "42", "stage": "ResponseComplete", "requestURI": "/", "verb": "get"}
BODY = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": [EVENT]}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_batches_are_decoded(name: str, group: str) -> None:
    events = audit.decode(encode_body(with_api_version(RECORDED[name], group)))
    items = RECORDED[name]["items"]
    assert Counter(events) == Counter(AuditEvent(item["level"], item["stage"]) for item in items)
    assert len(events) == len(items) > 0


@pytest.mark.parametrize("items", [[], [EVENT], [EVENT] * 400], ids=len)
def test_batches_have_any_length(items: list[Json]) -> None:
    assert len(audit.decode(encode_body({**BODY, "items": items}))) == len(items)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "Event"},
        {"kind": "PolicyList"},
        {"apiVersion": "audit.k8s.io/v1beta1"},
        {"apiVersion": "audit.example.org/v1"},
        {"items": None},
        {"items": {}},
        {"items": ["event"]},
        {"items": [{"level": "Metadata"}]},
        {"items": [EVENT, {**EVENT, "stage": 5}]},
    ],
    ids=repr,
)
def test_malformed_batches_are_rejected(change: Json) -> None:
    with pytest.raises(MalformedReview) as caught:
        audit.decode(encode_body({**BODY, **change}))
    assert caught.value.code == 400


def test_batches_are_decoded_strictly() -> None:
    body = encode_body({**BODY, "items": ["EVENT"]}).replace(
        b'"EVENT"', b'{"level":"Metadata","stage":"a","stage":"b"}'
    )
    with pytest.raises(MalformedReview, match="duplicate key 'stage'"):
        audit.decode(body)
