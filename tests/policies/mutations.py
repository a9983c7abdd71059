"""Objects after a mutation."""

from typing import Any

from webhooks import Deny
from webhooks.reviews import admission_codec

from ..support.api_server import accept_admission
from ..support.builders import AnyPolicy, Json, admission_body, decide, encode_body, encode_response
from .pods import RESOURCES


def mutated_object(policy: AnyPolicy, obj: Any, **request: Any) -> Any:
    """Return the object as it would be stored, or the denial. Check that a second call does not change it.

    Args:
        policy: with its parameters.
        obj: the object in the request.
        request: further arguments for `admission_body`.
    """
    first = _call(policy, obj, request)
    if not isinstance(first, Deny):
        assert _call(policy, first, request) == first, "the second call changed it"
    return first


def _call(policy: AnyPolicy, obj: Any, request: Json) -> Any:
    kind = obj.get("kind", "Pod") if isinstance(obj, dict) else "Pod"
    resource = request.get("resource") or RESOURCES.get(kind, "v1/pods")
    group, _, version = resource.rpartition("/")[0].rpartition("/")
    gvk = {"group": group, "version": version, "kind": kind}
    body = admission_body(**{"obj": obj, "resource": resource, "kind": gvk, **request})
    review = admission_codec.CODEC.decode(encode_body(body))
    assert policy.match.matches_resource(review)
    verdict = decide(review, policy)
    response = accept_admission(body, encode_response("mutating", review, verdict), mutating=True)
    return response["object"] if response["allowed"] else verdict.outcome
