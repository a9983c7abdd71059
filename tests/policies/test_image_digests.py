from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from .images import check_images, volume
from .pods import check_all_kinds, check_containers, check_exemptions, container, message, pod_spec

[image_digests] = load(["library:image_digests"])

DIGEST = f"sha256:{'a' * 64}"
PINNED = f"nginx@{DIGEST}"


@pytest.mark.parametrize(
    "image",
    [
        PINNED,
        f"nginx:1.27@{DIGEST}",
        f"localhost:5000/team/web@{DIGEST}",
        f"nginx@sha384:{'a' * 96}",
        f"nginx@sha512:{'a' * 128}",
    ],
)
def test_images_with_a_digest_are_allowed(image: str) -> None:
    assert message(image_digests, pod_spec(container(image=image), volumes=[volume(image)])) is None


@pytest.mark.parametrize(
    "image",
    [
        "nginx",
        "nginx:1.27",
        f"nginx:sha256-{'a' * 64}",
        "nginx@sha256:abc",
        "nginx@sha256:",
        "nginx@",
        f"nginx@{DIGEST.upper()}",
        f"nginx@md5:{'a' * 32}",
        f"nginx@{DIGEST}a",
        f"nginx@{DIGEST} ",
        f"@{DIGEST}",
        DIGEST,
        "a" * 64,
        "",
    ],
)
def test_images_without_a_valid_digest_are_denied(image: str) -> None:
    problem = f"container app: image {image} must have a digest, such as app@sha256:..."
    assert message(image_digests, pod_spec(container(image=image))) == problem


def test_all_objects() -> None:
    good, bad = container(image=PINNED), container(image="nginx:2")
    check_all_kinds(image_digests, pod_spec(good), pod_spec(bad))
    check_all_kinds(image_digests, pod_spec(good, volumes=[volume(PINNED)]), pod_spec(good, volumes=[volume("nginx")]))
    check_containers(image_digests, good, bad)
    check_images(image_digests, PINNED, "nginx:2")
    check_exemptions(image_digests, bad)


@pytest.mark.parametrize("value", ["nginx", None, [5]], ids=repr)
def test_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        image_digests.bind(exempt_images=value)
