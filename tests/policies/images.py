"""What every policy on images must do."""

from typing import Any

from webhooks import Deny

from ..support.builders import AnyPolicy, Json
from .objects import RESOURCES, check_shapes, container, judged, message, spec_of


def volume(reference: Any, name: str = "model") -> Json:
    """A volume that is filled from an image."""
    return {"name": name, "image": {"reference": reference, "pullPolicy": "Always"}}


def check_images(policy: AnyPolicy, good: str, bad: str) -> None:
    """It overlooks no image of a volume, and denies what is no image.

    Args:
        policy: with its parameters set.
        good: an image that it allows.
        bad: another that it denies.
    """
    others = [{"name": "data", "emptyDir": {}}, {"name": "none", "image": None}]
    allowed = spec_of(container(image=good), volumes=[*others, volume(good)])
    denied = spec_of(container(image=good), volumes=[*others, volume(good, "first"), volume(bad)])
    for kind in RESOURCES:
        assert message(policy, allowed, kind) is None, kind
        problem = message(policy, denied, kind) or ""
        assert "volume model" in problem, kind
        assert bad in problem, kind
        assert "first" not in problem, kind
        assert message(policy, denied, kind, old=denied) is None, kind
    both = message(policy, spec_of(container(image=bad), volumes=[volume(bad)])) or ""
    assert "container app" in both
    assert "volume model" in both
    mended = spec_of(container(image=bad), volumes=[volume(good)])
    assert "container app" not in (message(policy, denied, old=mended) or "")
    for image in (None, 5, ["a"], {"name": good}, ""):
        assert isinstance(judged(policy, spec_of(container(image=image))), Deny), image
        assert isinstance(judged(policy, spec_of(container(image=good), volumes=[volume(image)])), Deny), image
    check_shapes(policy, allowed, "volumes", [])
    check_shapes(policy, allowed, "volumes/0", {}, {"x": "y"})
    check_shapes(policy, allowed, "volumes/2/image")
    check_shapes(policy, allowed, "containers", [])
    check_shapes(policy, allowed, "containers/0")
