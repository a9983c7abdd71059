"""Checks for every policy on images."""

from typing import Any

from webhooks import Deny

from ..support.builders import AnyPolicy, Json
from .pods import RESOURCES, check_shapes, container, decide_on_pod, message, pod_spec


def volume(reference: Any, name: str = "model") -> Json:
    """Return an image volume."""
    return {"name": name, "image": {"reference": reference, "pullPolicy": "Always"}}


def check_images(policy: AnyPolicy, good: str, bad: str) -> None:
    """Check that the images of volumes are checked, and that invalid images are denied.

    Args:
        policy: with its parameters.
        good: an image that it allows.
        bad: another that it denies.
    """
    others = [{"name": "data", "emptyDir": {}}, {"name": "none", "image": None}]
    allowed = pod_spec(container(image=good), volumes=[*others, volume(good)])
    denied = pod_spec(container(image=good), volumes=[*others, volume(good, "first"), volume(bad)])
    for kind in RESOURCES:
        assert message(policy, allowed, kind) is None, kind
        problem = message(policy, denied, kind) or ""
        assert "volume model" in problem, kind
        assert bad in problem, kind
        assert "first" not in problem, kind
        assert message(policy, denied, kind, old=denied) is None, kind
    both = message(policy, pod_spec(container(image=bad), volumes=[volume(bad)])) or ""
    assert "container app" in both
    assert "volume model" in both
    fixed = pod_spec(container(image=bad), volumes=[volume(good)])
    assert "container app" not in (message(policy, denied, old=fixed) or "")
    for image in (None, 5, ["a"], {"name": good}, ""):
        assert isinstance(decide_on_pod(policy, pod_spec(container(image=image))), Deny), image
        assert isinstance(decide_on_pod(policy, pod_spec(container(image=good), volumes=[volume(image)])), Deny), image
    check_shapes(policy, allowed, "volumes", [])
    check_shapes(policy, allowed, "volumes/0", {}, {"x": "y"})
    check_shapes(policy, allowed, "volumes/2/image")
    check_shapes(policy, allowed, "containers", [])
    check_shapes(policy, allowed, "containers/0")
