"""Pods and workloads, and checks for every policy on them."""

from typing import Any

from webhooks import AdmissionReview, Allow, Decision, Deny
from webhooks.errors import MalformedReview

from ..support.builders import AnyPolicy, Json, admission_review, decide

LISTS = ("containers", "initContainers", "ephemeralContainers")
RESOURCES = {
    "Pod": "v1/pods",
    "PodTemplate": "v1/podtemplates",
    "ReplicationController": "v1/replicationcontrollers",
    "Deployment": "apps/v1/deployments",
    "ReplicaSet": "apps/v1/replicasets",
    "StatefulSet": "apps/v1/statefulsets",
    "DaemonSet": "apps/v1/daemonsets",
    "Job": "batch/v1/jobs",
    "CronJob": "batch/v1/cronjobs",
}
NOT_MATCHING = (
    {"operation": "DELETE"},
    {"operation": "CONNECT"},
    {"operation": "UPDATE", "subResource": "status"},
)
SHAPES: list[Any] = [[], ["x"], "", "x", 0, 7, 0.5, True, False, {}, {"x": "y"}]  # wrong values for fields


def container(name: str = "app", image: str = "registry.example.com/app:1", **fields: Any) -> Json:
    return {"name": name, "image": image, **fields}


def with_context(name: str = "app", **context: Any) -> Json:
    """Return a container with this security context."""
    return container(name, securityContext=context)


def pod_spec(*containers: Json, **spec: Any) -> Json:
    """Return a pod spec with these containers; by default with one plain container."""
    return {"containers": list(containers or [container()]), **spec}


def make_object(kind: str, spec: Any, annotations: dict[str, str] | None = None) -> Json:
    """Return an object of the kind with this pod spec, and these annotations of the pod."""
    metadata = {} if annotations is None else {"annotations": annotations}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "web", **metadata}, "spec": spec}
    template = {"metadata": metadata, "spec": spec}
    version = RESOURCES[kind].rpartition("/")[0]
    if kind == "PodTemplate":
        inner: Json = {"template": template}
    elif kind == "CronJob":
        inner = {"spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}}}
    else:
        inner = {"spec": {"template": template}}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, **inner}


def review_of(
    kind: str, spec: Any, *, old: Any = None, annotations: dict[str, str] | None = None, **request: Any
) -> AdmissionReview:
    """Return a request to create an object of the kind, or to update it if there is an old spec."""
    group, _, version = RESOURCES[kind].rpartition("/")[0].rpartition("/")
    return admission_review(
        **{
            "operation": "CREATE" if old is None else "UPDATE",
            "obj": make_object(kind, spec, annotations),
            "old": None if old is None else make_object(kind, old, annotations),
            "resource": RESOURCES[kind],
            "kind": {"group": group, "version": version, "kind": kind},
            **request,
        }
    )


def decide_on_pod(policy: AnyPolicy, spec: Any, kind: str = "Pod", **request: Any) -> Decision:
    """Return the decision of a policy on an object with this pod; a MalformedReview counts as a denial."""
    review = review_of(kind, spec, **request)
    assert policy.match.matches_resource(review)
    try:
        outcome = decide(review, policy).outcome
    except MalformedReview as error:
        return Deny(str(error), code=error.code)
    assert isinstance(outcome, Allow | Deny)
    return outcome


def message(policy: AnyPolicy, spec: Any, kind: str = "Pod", **request: Any) -> str | None:
    """Return the message with which a policy denies a pod; None if it allows it."""
    outcome: Decision = policy(review_of(kind, spec, **request))
    if isinstance(outcome, Deny):
        assert outcome.code == 403
        return outcome.message
    assert outcome == Allow()
    return None


def check_all_kinds(policy: AnyPolicy, good: Json, bad: Json) -> None:
    """Check that the bad pod is denied in every kind of object, except if it was stored before, or is deleted.

    Args:
        policy: with its parameters.
        good: a pod spec that it allows.
        bad: another that it denies.
    """
    denial = message(policy, bad)
    assert denial
    for kind in RESOURCES:
        case = f"{kind}: {good} -> {bad}"
        assert policy.match.matches_resource(review_of(kind, good)), case
        assert message(policy, good, kind) is None, case
        assert message(policy, bad, kind) == denial, case
        assert message(policy, bad, kind, old=good) == denial, case
        assert message(policy, bad, kind, old=bad) is None, case
        assert message(policy, good, kind, old=bad) is None, case
        deletion = review_of(kind, None, operation="DELETE", obj=None, old=None, oldObject=make_object(kind, bad))
        assert policy(deletion) == Allow(), case
        for request in NOT_MATCHING:
            assert not policy.match.matches_resource(review_of(kind, bad, **request)), case
    for resource in ("v1/services", "v1/configmaps", "v1/namespaces", "example.org/v1/things"):
        assert not policy.match.matches_resource(admission_review(resource=resource))
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {}, "data": {"spec": bad}}
    assert policy(admission_review(obj=revision, resource="apps/v1/controllerrevisions")) == Allow()


def check_containers(policy: AnyPolicy, good: Json, bad: Json, **spec: Any) -> None:
    """Check that all containers in all lists are checked, and that denials name them.

    Args:
        policy: with its parameters, without ``exempt_images``.
        good: a container that it allows.
        bad: another that it denies.
        spec: other fields of the pod.
    """
    good, bad = {**good, "name": "good"}, {**bad, "name": "bad"}
    all_good = {**spec, **{list_: [{**good, "name": list_}] for list_ in LISTS}}
    assert message(policy, all_good) is None
    for kind in RESOURCES:
        for list_ in LISTS:
            assert "bad" in (message(policy, {**all_good, list_: [good, bad]}, kind) or ""), (kind, list_)
    both = message(policy, {**all_good, "containers": [bad, good, {**bad, "name": "worse"}]}) or ""
    assert "bad" in both
    assert "worse" in both
    assert "good" not in both
    debugging = {**all_good, "ephemeralContainers": [bad]}
    request = {"operation": "UPDATE", "subResource": "ephemeralcontainers"}
    assert isinstance(decide_on_pod(policy, debugging, old=all_good, **request), Deny)
    another = {**debugging, "ephemeralContainers": [{**bad, "name": "next"}, bad]}
    assert "next" in (message(policy, another, old=debugging, **request) or "")
    assert "bad" not in (message(policy, another, old=debugging, **request) or "")


def check_exemptions(policy: AnyPolicy, bad: Json, **spec: Any) -> None:
    """Check that containers are exempt by image reference or prefix, and that similar images are not.

    Args:
        policy: with its parameters, without ``exempt_images``.
        bad: a container that it denies.
        spec: other fields of the pod.
    """
    exempt = policy.bind(exempt_images=["registry.example.com/cni/*", "nginx:1"])
    images = ("registry.example.com/cni/node:1", "registry.example.com/cni/a/b", "nginx:1", "docker.io/library/nginx:1")
    for image in images:
        for list_ in LISTS:
            pod = {"containers": [], **spec, list_: [{**bad, "image": image}]}
            assert message(policy, pod), (image, list_)
            assert message(exempt, pod) is None, (image, list_)
    similar_images = (
        "registry.example.com.evil.org/cni/node",
        "registry.example.com/cnix/node",
        "evil.org/registry.example.com/cni/node",
        "registry.example.com/cni/../node",
        "nginx:12",
        "nginx",
        "evil.org/nginx:1",
        "",
    )
    for image in similar_images:
        assert message(exempt, pod_spec({**bad, "image": image}, **spec)), image
    allowed = pod_spec({**bad, "image": "nginx:1"}, **spec)
    assert message(exempt, pod_spec({**bad, "image": "nginx:2"}, **spec), old=allowed), "no longer exempt"


def check_shapes(policy: AnyPolicy, spec: Json, path: str, *good: Any) -> None:
    """Check that the object is denied with any wrong value in a field.

    Args:
        policy: with its parameters.
        spec: a pod spec with the field.
        path: the path of the field, such as ``containers/0/securityContext``.
        good: the values of `SHAPES` that the policy may allow.
    """
    for shape in SHAPES:
        if any(shape == value and type(shape) is type(value) for value in good):
            continue
        assert isinstance(decide_on_pod(policy, _replaced(spec, path.split("/"), shape)), Deny), (path, shape)


def _replaced(tree: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    if isinstance(tree, list):
        index = int(path[0])
        return [*tree[:index], _replaced(tree[index], path[1:], value), *tree[index + 1 :]]
    return {**tree, path[0]: _replaced(tree.get(path[0]), path[1:], value)}
