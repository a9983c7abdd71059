"""What mutating policies leave of objects."""

from typing import Any

from webhooks import Deny
from webhooks.reviews import admission_codec

from ..support.builders import AnyPolicy, Json, admission_body, decide, reply, written
from ..support.caller import accept_admission
from .objects import RESOURCES


def stored(policy: AnyPolicy, obj: Any, **request: Any) -> Any:
    """The object as it would be stored, which a second call leaves as it is; the denial where there is one.

    Args:
        policy: with its parameters set.
        obj: the object as it comes.
        request: more of the request, as `admission_body` takes it.
    """
    first = _called(policy, obj, request)
    if not isinstance(first, Deny):
        assert _called(policy, first, request) == first, "not the same when done twice"
    return first


def _called(policy: AnyPolicy, obj: Any, request: Json) -> Any:
    kind = obj.get("kind", "Pod") if isinstance(obj, dict) else "Pod"
    resource = request.get("resource") or RESOURCES.get(kind, "v1/pods")
    group, _, version = resource.rpartition("/")[0].rpartition("/")
    gvk = {"group": group, "version": version, "kind": kind}
    body = admission_body(**{"obj": obj, "resource": resource, "kind": gvk, **request})
    review = admission_codec.CODEC.decode(written(body))
    assert policy.match.matches_resource(review)
    verdict = decide(review, policy)
    response = accept_admission(body, reply("mutating", review, verdict), mutating=True)
    return response["object"] if response["allowed"] else verdict.outcome
