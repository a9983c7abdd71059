from typing import Any

import pytest

from webhooks import Allow, Deny
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import decide, image_review

[trusted_registries] = load(["library:trusted_registries"])

DIGEST = f"sha256:{'a' * 64}"

# Registries, images from them, and images with others among them.
IMAGES: list[tuple[list[str], list[list[str]], list[list[str]]]] = [
    (
        ["registry.example.com"],
        [[], ["registry.example.com/web"], ["registry.example.com/web:1", f"registry.example.com/team/web@{DIGEST}"]],
        [
            ["nginx"],
            ["registry.example.com/web", "nginx"],
            ["nginx", "registry.example.com/web"],
            ["registry.example.com.evil.org/web"],
            ["registry.example.com:5000/web"],
            ["evil.org/registry.example.com/web"],
            ["registry.example.com"],
            ["registry.example.com/../web"],
            ["registry.example.com/web\n"],
            [""],
        ],
    ),
    (["registry.example.com/team"], [["registry.example.com/team/web"]], [["registry.example.com/teamster/web"]]),
    (["docker.io/library", "bitnami"], [["nginx", "docker.io/nginx:1", "bitnami/nginx"]], [["other/nginx"]]),
    ([], [[]], [["registry.k8s.io/pause"]]),
]


@pytest.mark.parametrize(("registries", "good", "bad"), IMAGES, ids=lambda value: ",".join(map(str, value))[:30])
def test_images_are_compared(registries: list[str], good: list[list[str]], bad: list[list[str]]) -> None:
    policy = trusted_registries.bind(registries=registries)
    for images in good:
        assert policy(image_review(*images)) == Allow(), images
    for images in bad:
        outcome = decide(image_review(*images), policy).outcome
        assert isinstance(outcome, Deny), images
        assert outcome.message.startswith(f"images must come from {' or '.join(registries) or 'a trusted registry'}: ")


def test_all_images_are_named() -> None:
    outcome = trusted_registries(image_review("a/b", "registry.k8s.io/pause", "c"))
    assert outcome == Deny("images must come from registry.k8s.io: a/b, c")


def test_annotations_are_ignored() -> None:
    review = image_review("nginx", annotations={"example.image-policy.k8s.io/break-glass": "true"})
    assert isinstance(trusted_registries(review), Deny)


@pytest.mark.parametrize("registry", ["", "*", "good.io/*", "good.io/a:1", "https://good.io"])
def test_invalid_registries_deny_everything(registry: str) -> None:
    policy = trusted_registries.bind(registries=[registry])
    assert isinstance(decide(image_review("good.io/a"), policy).outcome, Deny)


@pytest.mark.parametrize("registries", ["good.io", [5], None, {"good.io": True}], ids=repr)
def test_parameters_are_checked(registries: Any) -> None:
    with pytest.raises(ConfigurationError):
        trusted_registries.bind(registries=registries)
