"""What every policy on the resources of containers must do."""

from webhooks import Allow, Deny

from ..support.builders import AnyPolicy, Json
from .objects import RESOURCES, check_everywhere, check_shapes, container, judged, message, review_of, spec_of


def using(limits: Json | None = None, requests: Json | None = None, image: str = "a", name: str = "app") -> Json:
    """A container with these resources."""
    said = {"limits": limits, "requests": requests}
    return container(name, image, resources={key: value for key, value in said.items() if value is not None})


def check_resources(policy: AnyPolicy, good: Json, bad: Json, *limits: Json) -> None:
    """It asks ordinary and init containers in every kind of object, exempt ones excepted, and no ephemeral ones.

    Args:
        policy: with its parameters set.
        good: a container that it allows.
        bad: another that it denies.
        limits: the shapes that the limits of the good one may have.
    """
    check_everywhere(policy, spec_of(good), spec_of(bad))
    assert policy.match.matches_resource(review_of("Deployment", spec_of(bad), old=spec_of(good)))
    bad, good = {**bad, "name": "bad"}, {**good, "name": "good"}
    for kind in RESOURCES:
        assert "init container bad" in (message(policy, spec_of(good, initContainers=[good, bad]), kind) or "")
        assert message(policy, spec_of(good, ephemeralContainers=[container("debug")]), kind) is None
    both = message(policy, spec_of(bad, good, {**bad, "name": "worse"})) or ""
    assert "container bad" in both
    assert "container worse" in both
    assert "good" not in both
    exempt = policy.bind(exempt_images=["registry.example.com/cni/*", "nginx:1"])
    for image in ("registry.example.com/cni/node", "nginx:1"):
        assert message(exempt, spec_of({**bad, "image": image})) is None
    for image in ("registry.example.com.evil.org/cni/node", "registry.example.com/cnix", "nginx:12", "nginx", ""):
        assert message(exempt, spec_of({**bad, "image": image}))
    assert message(exempt, spec_of({**bad, "image": "nginx"}), old=spec_of({**bad, "image": "nginx:1"}))
    check_shapes(policy, spec_of(good), "containers/0/resources")
    check_shapes(policy, spec_of(good), "containers/0/resources/limits", *limits)
    check_shapes(policy, spec_of(good), "containers", [])


def check_resizing(policy: AnyPolicy, good: Json, bad: Json) -> None:
    """It asks about running pods that are resized."""
    review = review_of("Pod", spec_of(bad), old=spec_of(good), subResource="resize")
    assert policy.match.matches_resource(review)
    assert isinstance(policy(review), Deny)
    assert policy(review_of("Pod", spec_of(bad), old=spec_of(bad), subResource="resize")) == Allow()


def check_parameter(policy: AnyPolicy, name: str, good: Json) -> None:
    """A quantity in its parameters that is none denies."""
    for value in ("1GB", "lots", " 1", "-"):
        assert isinstance(judged(policy.bind(**{name: value}), spec_of(good)), Deny), value
