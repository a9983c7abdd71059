"""Objects without pods, and checks for every policy on them."""

from typing import Any

from webhooks import AdmissionReview, Allow, Decision, Deny
from webhooks.errors import MalformedReview
from webhooks.testing import admission

from ..support.builders import AnyPolicy, Json, decide
from .pods import SHAPES

# Requests, and whether they are for namespaces, pods or workloads, which people create.
REQUESTS_BY_RESOURCE: list[tuple[Json, bool]] = [
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


def review_for(obj: Any, old: Any = None, **request: Any) -> AdmissionReview:
    """Return a request to create an object, or to update it if there is an old one."""
    return admission("CREATE" if old is None else "UPDATE", obj, old_object=old, **request)


def message(policy: AnyPolicy, obj: Json, old: Json | None = None) -> str | None:
    """Return the message with which a policy denies an object; None if it allows it."""
    outcome: Decision = policy(review_for(obj, old))
    if isinstance(outcome, Deny):
        assert outcome.code == 403
        assert len(outcome.message) < 200
        return outcome.message
    assert outcome == Allow()
    return None


def check_requests(policy: AnyPolicy, good: Json, bad: Json) -> None:
    """Check that the bad object is denied, except if it was stored before, or is deleted; and which requests match.

    Args:
        policy: with its parameters.
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
    for review, expected in (
        (review_for(bad), True),
        (review_for(bad, good), True),
        (review_for(bad, good, subresource="status"), False),
        (admission("DELETE", old_object=bad), False),
        (admission("CONNECT", bad), False),
        (review_for({**bad, "apiVersion": "example.org/v1"}), False),
        (review_for({**bad, "kind": "ConfigMap"}), False),
        (review_for({**bad, "kind": "Node"}), False),
    ):
        assert policy.match.matches_resource(review) is expected, review


def check_shapes(policy: AnyPolicy, good: Json, *path: str | int, allowed: tuple[Any, ...] = ()) -> None:
    """Check that the object is denied with any wrong value in a field.

    Args:
        policy: with its parameters.
        good: an object that it allows.
        path: the path of the field.
        allowed: the values of `SHAPES` that the policy may allow.
    """
    assert message(policy, good) is None
    for shape in SHAPES:
        if any(shape == value and type(shape) is type(value) for value in allowed):
            continue
        review = review_for(_replaced(good, list(path), shape))
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
