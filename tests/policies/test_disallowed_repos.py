from typing import Any

import pytest

from webhooks import Deny
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from .images import check_images, volume
from .pods import check_all_kinds, check_containers, container, decide_on_pod, message, pod_spec

[disallowed_repos] = load(["library:disallowed_repos"])

DIGEST = f"sha256:{'a' * 64}"
# Repositories, images from others, and images from them.
REPOS: list[tuple[list[str], list[str], list[str]]] = [
    (
        ["k8s.gcr.io"],
        ["registry.k8s.io/pause:3", "nginx", "k8s.gcr.io.example.org/pause", "example.org/k8s.gcr.io/pause"],
        ["k8s.gcr.io/pause", "k8s.gcr.io/pause:3", f"k8s.gcr.io/a/b@{DIGEST}", "K8S.gcr.io/pause"],
    ),
    (["k8s.gcr.io/"], ["registry.k8s.io/pause:3"], ["k8s.gcr.io/pause"]),
    (["docker.io/team"], ["nginx", "teamster/web", "gcr.io/team/web"], ["team/web", "index.docker.io/team/web:1"]),
    (["team"], ["nginx", "teamster/web", "gcr.io/team/web"], ["team/web", "team", "team:1", "docker.io/team/web"]),
    (
        ["nginx"],
        ["nginxx", "library/nginxx", "gcr.io/nginx", "gcr.io/library/nginx"],
        ["nginx", "nginx:1", "docker.io/nginx", "nginx/unit"],
    ),
    (["docker.io/nginx"], ["nginxx", "gcr.io/nginx"], ["nginx", "docker.io/library/nginx:1", "nginx/unit"]),
    (["index.docker.io/nginx"], ["nginxx"], ["nginx", "nginx/unit"]),
    (["docker.io"], ["gcr.io/nginx"], ["nginx", "team/web", "docker.io/team/web"]),
    (["localhost:5000"], ["localhost/web", "localhost:50000/web"], ["localhost:5000/web"]),
    (["a.example.com/x", "b.example.com"], ["a.example.com/y"], ["a.example.com/x/y", "b.example.com/y"]),
    ([], ["nginx"], []),
]


@pytest.mark.parametrize(("repos", "good", "bad"), REPOS, ids=lambda value: ",".join(value)[:30])
def test_images_from_the_repositories_are_denied(repos: list[str], good: list[str], bad: list[str]) -> None:
    policy = disallowed_repos.bind(repos=repos)
    for image in good:
        assert message(policy, pod_spec(container(image=image))) is None, image
    for image in bad:
        problem = message(policy, pod_spec(container(image=image))) or ""
        assert problem.startswith(f"container app: image {image} must not come from "), image


@pytest.mark.parametrize("image", ["", "k8s.gcr.io//pause", " k8s.gcr.io/pause", "https://k8s.gcr.io/pause", "A"])
def test_invalid_images_are_denied(image: str) -> None:
    assert (
        message(disallowed_repos, pod_spec(container(image=image)))
        == f"container app: {image!r} is not a valid image reference"
    )


def test_all_objects() -> None:
    good, bad = container(image="nginx"), container(image="k8s.gcr.io/pause")
    check_all_kinds(disallowed_repos, pod_spec(good), pod_spec(bad))
    check_all_kinds(disallowed_repos, pod_spec(good), pod_spec(good, volumes=[volume("k8s.gcr.io/pause")]))
    check_containers(disallowed_repos, good, bad)
    check_images(disallowed_repos, "nginx", "k8s.gcr.io/pause")


@pytest.mark.parametrize("repo", ["", "*", "good.io/*", "good.io:x/", "good.io/a:1", "https://good.io"])
def test_invalid_repositories_deny_everything(repo: str) -> None:
    assert isinstance(decide_on_pod(disallowed_repos.bind(repos=[repo]), pod_spec(container(image="nginx"))), Deny)


@pytest.mark.parametrize("repos", ["good.io", [5], None, {"good.io": True}], ids=repr)
def test_parameters_are_checked(repos: Any) -> None:
    with pytest.raises(ConfigurationError):
        disallowed_repos.bind(repos=repos)
