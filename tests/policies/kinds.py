"""Objects of other kinds than those that bear pods, and what every policy on them must do."""

from typing import Any

from webhooks import AdmissionReview, Allow, Decision, Deny
from webhooks.errors import MalformedReview
from webhooks.testing import admission

from ..support.builders import AnyPolicy, Json, decide
from .objects import SHAPES

# Requests, and whether they are about what people make: namespaces, pods and workloads.
PEOPLES: list[tuple[Json, bool]] = [
    ({}, True),
    ({"operation": "UPDATE"}, True),
    ({"operation": "DELETE"}, False),
    ({"operation": "CONNECT", "subResource": "exec"}, False),
    ({"operation": "UPDATE", "subResource": "status"}, False),
    ({"resource": "v1/namespaces"}, True),
    ({"resource": "v1/secrets"}, False),
    ({"resource": "apps/v1/deployments"}, True),
    ({"resource": "apps/v1/deployments", "subResource": "scale"}, False),
    ({"resource": "batch/v1/cronjobs"}, True),
]


def service(**spec: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [], **spec}}


def ingress(annotations: Json | None = None, *, group: str = "networking.k8s.io", **spec: Any) -> Json:
    metadata = {"name": "web"} if annotations is None else {"name": "web", "annotations": annotations}
    return {"apiVersion": f"{group}/v1", "kind": "Ingress", "metadata": metadata, "spec": spec}


def asked(obj: Any, old: Any = None, **request: Any) -> AdmissionReview:
    """A request to store an object, or where there is an old one to change that into it."""
    return admission("CREATE" if old is None else "UPDATE", obj, old_object=old, **request)


def message(policy: AnyPolicy, obj: Json, old: Json | None = None) -> str | None:
    """What a policy says against an object; None where it allows it."""
    outcome: Decision = policy(asked(obj, old))
    if isinstance(outcome, Deny):
        assert outcome.code == 403
        assert len(outcome.message) < 200
        return outcome.message
    assert outcome == Allow()
    return None


def check_requests(policy: AnyPolicy, good: Json, bad: Json) -> None:
    """It denies the bad object, but not where it was so before, nor where it goes; and asks about nothing else.

    Args:
        policy: with its parameters set.
        good: an object that it allows.
        bad: another of the same kind that it denies.
    """
    denial = message(policy, bad)
    assert denial
    assert message(policy, good) is None
    assert message(policy, bad, good) == denial
    assert message(policy, bad, bad) is None
    assert message(policy, good, bad) is None
    touched = {**bad, "metadata": {**bad["metadata"], "finalizers": []}}
    assert message(policy, touched, bad) is None
    assert policy(admission("DELETE", old_object=bad)) == Allow()
    for review, wanted in (
        (asked(bad), True),
        (asked(bad, good), True),
        (asked(bad, good, subresource="status"), False),
        (admission("DELETE", old_object=bad), False),
        (admission("CONNECT", bad), False),
        (asked({**bad, "apiVersion": "example.org/v1"}), False),
        (asked({**bad, "kind": "ConfigMap"}), False),
        (asked({**bad, "kind": "Node"}), False),
    ):
        assert policy.match.matches_resource(review) is wanted, review


def check_shapes(policy: AnyPolicy, good: Json, *path: str | int, allowed: tuple[Any, ...] = ()) -> None:
    """Whatever stands in the place of a field, the object is denied.

    Args:
        policy: with its parameters set.
        good: an object that it allows.
        path: where the field is.
        allowed: those of `SHAPES` that it may be.
    """
    assert message(policy, good) is None
    for shape in SHAPES:
        if any(shape == each and type(shape) is type(each) for each in allowed):
            continue
        review = asked(_replaced(good, list(path), shape))
        try:
            outcome = decide(review, policy).outcome
        except MalformedReview:
            continue
        assert isinstance(outcome, Deny), (path, shape)


def _replaced(tree: Any, path: list[str | int], value: Any) -> Any:
    if not path:
        return value
    key, *rest = path
    if isinstance(key, int):
        return [*tree[:key], _replaced(tree[key], rest, value), *tree[key + 1 :]]
    return {**tree, key: _replaced(tree.get(key, {}), rest, value)}
