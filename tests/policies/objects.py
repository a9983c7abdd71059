"""Objects that bear pods, and what every policy on pods must do with all of them."""

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
NO_POLICY_OUTCOME = (
    {"operation": "DELETE"},
    {"operation": "CONNECT"},
    {"operation": "UPDATE", "subResource": "status"},
)
SHAPES: list[Any] = [[], ["x"], "", "x", 0, 7, 0.5, True, False, {}, {"x": "y"}]  # all that a field can wrongly be


def container(name: str = "app", image: str = "registry.example.com/app:1", **fields: Any) -> Json:
    return {"name": name, "image": image, **fields}


def secured(name: str = "app", **context: Any) -> Json:
    """A container with this security context."""
    return container(name, securityContext=context)


def spec_of(*containers: Json, **spec: Any) -> Json:
    """A pod spec with these containers; one plain container unless given."""
    return {"containers": list(containers or [container()]), **spec}


def bearing(kind: str, spec: Any, annotations: dict[str, str] | None = None) -> Json:
    """An object of the kind with this pod in it, and these annotations of the pod."""
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
    """A request about an object of the kind: to make it, or where there is an old spec to change that into this one."""
    group, _, version = RESOURCES[kind].rpartition("/")[0].rpartition("/")
    return admission_review(
        **{
            "operation": "CREATE" if old is None else "UPDATE",
            "obj": bearing(kind, spec, annotations),
            "old": None if old is None else bearing(kind, old, annotations),
            "resource": RESOURCES[kind],
            "kind": {"group": group, "version": version, "kind": kind},
            **request,
        }
    )


def judged(policy: AnyPolicy, spec: Any, kind: str = "Pod", **request: Any) -> Decision:
    """What a policy decides about an object with this pod; one that it says is malformed is denied."""
    review = review_of(kind, spec, **request)
    assert policy.match.matches_resource(review)
    try:
        outcome = decide(review, policy).outcome
    except MalformedReview as malformed:
        return Deny(str(malformed), code=malformed.code)
    assert isinstance(outcome, Allow | Deny)
    return outcome


def message(policy: AnyPolicy, spec: Any, kind: str = "Pod", **request: Any) -> str | None:
    """What a policy says against a pod; None where it allows it."""
    outcome: Decision = policy(review_of(kind, spec, **request))
    if isinstance(outcome, Deny):
        assert outcome.code == 403
        return outcome.message
    assert outcome == Allow()
    return None


def check_everywhere(policy: AnyPolicy, good: Json, bad: Json) -> None:
    """It denies the bad pod in every kind of object, but not where that was there before, nor where it goes.

    Args:
        policy: with its parameters set.
        good: a pod spec that it allows.
        bad: another that it denies.
    """
    denial = message(policy, bad)
    assert denial
    for kind in RESOURCES:
        told = f"{kind}: {good} -> {bad}"
        assert policy.match.matches_resource(review_of(kind, good)), told
        assert message(policy, good, kind) is None, told
        assert message(policy, bad, kind) == denial, told
        assert message(policy, bad, kind, old=good) == denial, told
        assert message(policy, bad, kind, old=bad) is None, told
        assert message(policy, good, kind, old=bad) is None, told
        gone = review_of(kind, None, operation="DELETE", obj=None, old=None, oldObject=bearing(kind, bad))
        assert policy(gone) == Allow(), told
        for asked in NO_POLICY_OUTCOME:
            assert not policy.match.matches_resource(review_of(kind, bad, **asked)), told
    for resource in ("v1/services", "v1/configmaps", "v1/namespaces", "example.org/v1/things"):
        assert not policy.match.matches_resource(admission_review(resource=resource))
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {}, "data": {"spec": bad}}
    assert policy(admission_review(obj=revision, resource="apps/v1/controllerrevisions")) == Allow()


def check_containers(policy: AnyPolicy, good: Json, bad: Json, **spec: Any) -> None:
    """It overlooks no container, in whichever list, and names each that it denies.

    Args:
        policy: with its parameters set, ``exempt_images`` not among them.
        good: a container that it allows.
        bad: another that it denies.
        spec: other fields of the pod.
    """
    good, bad = {**good, "name": "good"}, {**bad, "name": "bad"}
    whole = {**spec, **{each: [{**good, "name": each}] for each in LISTS}}
    assert message(policy, whole) is None
    for kind in RESOURCES:
        for list_ in LISTS:
            assert "bad" in (message(policy, {**whole, list_: [good, bad]}, kind) or ""), (kind, list_)
    both = message(policy, {**whole, "containers": [bad, good, {**bad, "name": "worse"}]}) or ""
    assert "bad" in both
    assert "worse" in both
    assert "good" not in both
    debugged = {**whole, "ephemeralContainers": [bad]}
    asked = {"operation": "UPDATE", "subResource": "ephemeralcontainers"}
    assert isinstance(judged(policy, debugged, old=whole, **asked), Deny)
    another = {**debugged, "ephemeralContainers": [{**bad, "name": "next"}, bad]}
    assert "next" in (message(policy, another, old=debugged, **asked) or "")
    assert "bad" not in (message(policy, another, old=debugged, **asked) or "")


def check_exemptions(policy: AnyPolicy, bad: Json, **spec: Any) -> None:
    """Containers are exempt by their images, as a whole or by their beginning, and no look-alike is.

    Args:
        policy: as in `check_containers`, like the next.
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
    look_alikes = (
        "registry.example.com.evil.org/cni/node",
        "registry.example.com/cnix/node",
        "evil.org/registry.example.com/cni/node",
        "registry.example.com/cni/../node",
        "nginx:12",
        "nginx",
        "evil.org/nginx:1",
        "",
    )
    for image in look_alikes:
        assert message(exempt, spec_of({**bad, "image": image}, **spec)), image
    allowed = spec_of({**bad, "image": "nginx:1"}, **spec)
    assert message(exempt, spec_of({**bad, "image": "nginx:2"}, **spec), old=allowed), "no longer exempt"


def check_shapes(policy: AnyPolicy, spec: Json, path: str, *good: Any) -> None:
    """Whatever stands in the place of a field, the object is denied, unless it is one of the good values.

    Args:
        policy: with its parameters set.
        spec: a pod spec with the field.
        path: where it is in that, such as ``containers/0/securityContext``.
        good: those of `SHAPES` that the policy may allow.
    """
    for shape in SHAPES:
        if any(shape == each and type(shape) is type(each) for each in good):
            continue
        assert isinstance(judged(policy, _replaced(spec, path.split("/"), shape)), Deny), (path, shape)


def _replaced(tree: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    if isinstance(tree, list):
        index = int(path[0])
        return [*tree[:index], _replaced(tree[index], path[1:], value), *tree[index + 1 :]]
    return {**tree, path[0]: _replaced(tree.get(path[0]), path[1:], value)}
