"""Checks for every policy on resources of containers."""

from webhooks import Allow, Deny

from ..support.builders import AnyPolicy, Json
from .pods import RESOURCES, check_all_kinds, check_shapes, container, decide_on_pod, message, pod_spec, review_of


def using(limits: Json | None = None, requests: Json | None = None, image: str = "a", name: str = "app") -> Json:
    """Return a container with these resources."""
    resources = {"limits": limits, "requests": requests}
    return container(name, image, resources={key: value for key, value in resources.items() if value is not None})


def check_resources(policy: AnyPolicy, good: Json, bad: Json, *limits: Json) -> None:
    """Check that regular and init containers are checked in all kinds of objects, and ephemeral and exempt ones not.

    Args:
        policy: with its parameters.
        good: a container that it allows.
        bad: another that it denies.
        limits: wrong values that the limits may have.
    """
    check_all_kinds(policy, pod_spec(good), pod_spec(bad))
    assert policy.match.matches_resource(review_of("Deployment", pod_spec(bad), old=pod_spec(good)))
    bad, good = {**bad, "name": "bad"}, {**good, "name": "good"}
    for kind in RESOURCES:
        assert "init container bad" in (message(policy, pod_spec(good, initContainers=[good, bad]), kind) or "")
        assert message(policy, pod_spec(good, ephemeralContainers=[container("debug")]), kind) is None
    both = message(policy, pod_spec(bad, good, {**bad, "name": "worse"})) or ""
    assert "container bad" in both
    assert "container worse" in both
    assert "good" not in both
    exempt = policy.bind(exempt_images=["registry.example.com/cni/*", "nginx:1"])
    for image in ("registry.example.com/cni/node", "nginx:1"):
        assert message(exempt, pod_spec({**bad, "image": image})) is None
    for image in ("registry.example.com.evil.org/cni/node", "registry.example.com/cnix", "nginx:12", "nginx", ""):
        assert message(exempt, pod_spec({**bad, "image": image}))
    assert message(exempt, pod_spec({**bad, "image": "nginx"}), old=pod_spec({**bad, "image": "nginx:1"}))
    check_shapes(policy, pod_spec(good), "containers/0/resources")
    check_shapes(policy, pod_spec(good), "containers/0/resources/limits", *limits)
    check_shapes(policy, pod_spec(good), "containers", [])


def check_resizing(policy: AnyPolicy, good: Json, bad: Json) -> None:
    """Check that resizing a running pod is checked."""
    review = review_of("Pod", pod_spec(bad), old=pod_spec(good), subResource="resize")
    assert policy.match.matches_resource(review)
    assert isinstance(policy(review), Deny)
    assert policy(review_of("Pod", pod_spec(bad), old=pod_spec(bad), subResource="resize")) == Allow()


def check_parameter(policy: AnyPolicy, name: str, good: Json) -> None:
    """Check that an invalid quantity as a parameter denies everything."""
    for value in ("1GB", "lots", " 1", "-"):
        assert isinstance(decide_on_pod(policy.bind(**{name: value}), pod_spec(good)), Deny), value
