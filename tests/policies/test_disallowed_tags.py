from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from .images import check_images, volume
from .pods import check_all_kinds, check_containers, check_exemptions, container, message, pod_spec

[disallowed_tags] = load(["library:disallowed_tags"])

DIGEST = f"sha256:{'a' * 64}"
# Tags, allowed images, and denied images with the violation.
IMAGES: list[tuple[list[str], list[str], dict[str, str]]] = [
    (
        ["latest"],
        [
            "nginx:1",
            "nginx:latest-1",
            "nginx:not-latest",
            "nginx:LATEST",
            "localhost:5000/nginx:1",
            f"nginx@{DIGEST}",
            f"nginx:latest@{DIGEST}",
        ],
        {
            "nginx": "image nginx must have a tag",
            "docker.io/library/nginx": "image docker.io/library/nginx must have a tag",
            "localhost:5000/nginx": "image localhost:5000/nginx must have a tag",
            "latest": "image latest must have a tag",
            "nginx:latest": "image nginx:latest must have another tag",
            "localhost:5000/nginx:latest": "image localhost:5000/nginx:latest must have another tag",
            "": "'' is not a valid image reference",
            "nginx:": "'nginx:' is not a valid image reference",
            "nginx:1 ": "'nginx:1 ' is not a valid image reference",
            "nginx@sha256:abc": "'nginx@sha256:abc' is not a valid image reference",
            "nginx:latest@sha256:abc": "'nginx:latest@sha256:abc' is not a valid image reference",
        },
    ),
    (
        ["latest", "dev"],
        ["nginx:1", "dev/nginx:1"],
        {
            "nginx:dev": "image nginx:dev must have another tag",
            "nginx:latest": "image nginx:latest must have another tag",
        },
    ),
    ([], ["nginx:latest"], {"nginx": "image nginx must have a tag"}),
]


@pytest.mark.parametrize(("tags", "good", "bad"), IMAGES, ids=lambda value: ",".join(value)[:30])
def test_tags_are_denied(tags: list[str], good: list[str], bad: dict[str, str]) -> None:
    policy = disallowed_tags.bind(tags=tags)
    for image in good:
        assert message(policy, pod_spec(container(image=image))) is None, image
    for image, problem in bad.items():
        assert message(policy, pod_spec(container(image=image))) == f"container app: {problem}", image


def test_all_objects() -> None:
    good, bad = container(image="nginx:2"), container(image="nginx:latest")
    check_all_kinds(disallowed_tags, pod_spec(good), pod_spec(bad))
    check_all_kinds(disallowed_tags, pod_spec(volumes=[volume("nginx:2")]), pod_spec(volumes=[volume("nginx")]))
    check_containers(disallowed_tags, good, bad)
    check_images(disallowed_tags, "nginx:2", "nginx:latest")
    check_exemptions(disallowed_tags.bind(tags=["1", "2", "12", "latest"]), bad)


def test_exempt_images_may_have_any_tag_or_none() -> None:
    policy = disallowed_tags.bind(exempt_images=["nginx", "registry.example.com/*"])
    for image in ("nginx", "nginx:latest", "registry.example.com/web"):
        assert message(policy, pod_spec(container(image=image), volumes=[volume(image)])) is None
    assert message(policy, pod_spec(container(image="registry.example.com.evil.org/web")))


@pytest.mark.parametrize("name", ["tags", "exempt_images"])
@pytest.mark.parametrize("value", ["latest", None, [5]], ids=repr)
def test_parameters_are_checked(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        disallowed_tags.bind(**{name: value})
