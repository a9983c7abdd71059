from typing import Any

import pytest

from webhooks import Deny
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .images import check_images, volume
from .pods import check_all_kinds, check_containers, container, decide_on_pod, message, pod_spec, review_of

[allowed_repos] = load(["library:allowed_repos"])

DIGEST = f"sha256:{'a' * 64}"

# Repositories, images from them, and other images with similar names.
REPOS: list[tuple[list[str], list[str], list[str]]] = [
    (
        ["registry.example.com"],
        [
            "registry.example.com/web",
            "registry.example.com/web:1.2",
            "registry.example.com/team/web",
            f"registry.example.com/web@{DIGEST}",
            f"registry.example.com/web:1@{DIGEST}",
        ],
        [
            "nginx",
            "registry.example.com.evil.org/web",
            "registry.example.comx/web",
            "registry.example.com:5000/web",
            "evil.org/registry.example.com/web",
            "xregistry.example.com/web",
            "sub.registry.example.com/web",
            "registry.example.com",
            "registry.example.com@evil.org/web",
            "registry.example.com/../web",
            "registry.example.com//web",
            "https://registry.example.com/web",
            " registry.example.com/web",
            "registry.example.com/web ",
            "registry.example.com/web\n",
            "registry.example.com/WEB",
            "registry.example.com/web:",
            "registry.example.com/web@sha256:abc",
            "",
        ],
    ),
    (
        ["registry.example.com/team"],
        ["registry.example.com/team/web", "registry.example.com/team/deep/web", "registry.example.com/team:1"],
        ["registry.example.com/teamster/web", "registry.example.com/web", "registry.example.com/other/team/web"],
    ),
    (
        ["docker.io/library"],
        ["nginx", "docker.io/nginx", "docker.io/library/nginx:1"],
        ["bitnami/nginx", "library.io/nginx"],
    ),
    (["docker.io/bitnami"], ["bitnami/nginx", "index.docker.io/bitnami/nginx"], ["nginx", "bitnamix/nginx"]),
    (["localhost:5000"], ["localhost:5000/web"], ["localhost/web", "localhost:50000/web"]),
    (["a.example.com", "b.example.com"], ["a.example.com/x", "b.example.com/x"], ["c.example.com/x"]),
    ([], [], ["nginx", "registry.k8s.io/pause"]),
]


@pytest.mark.parametrize(("repos", "good", "bad"), REPOS, ids=lambda value: ",".join(value)[:30])
def test_images_come_from_allowed_repositories(repos: list[str], good: list[str], bad: list[str]) -> None:
    policy = allowed_repos.bind(repos=repos)
    for image in good:
        assert message(policy, pod_spec(container(image=image), volumes=[volume(image)])) is None, image
    for image in bad:
        problem = f"image {image} must come from {' or '.join(repos) or 'an allowed repository'}"
        assert message(policy, pod_spec(container(image=image))) == f"container app: {problem}", image
        volumes = pod_spec(container(image=good[0] if good else "a"), volumes=[volume(image)])
        assert (message(policy, volumes) or "").endswith(f"volume model: {problem}"), image


def test_all_objects() -> None:
    policy = allowed_repos.bind(repos=["fine.io"])
    good, bad = container(image="fine.io/a"), container(image="evil.io/a")
    check_all_kinds(policy, pod_spec(good), pod_spec(bad))
    check_all_kinds(policy, pod_spec(good), pod_spec(good, volumes=[volume("evil.io/a")]))
    check_containers(policy, good, bad)
    check_images(policy, "fine.io/a", "evil.io/a")


def test_all_images_are_named() -> None:
    obj = pod_spec(
        container("bad", "evil.io/a"),
        container("good", "fine.io/a"),
        {"name": "none"},
        initContainers=[{"image": "x"}],
        volumes=[volume("y", "data")],
    )
    images = {"container bad": "evil.io/a", "container none": "", "init container ": "x", "volume data": "y"}
    problems = "; ".join(f"{name}: image {image} must come from fine.io" for name, image in images.items())
    assert message(allowed_repos.bind(repos=["fine.io"]), obj) == problems


def test_an_update_is_denied_only_for_new_images() -> None:
    old, now = container("old", "evil.io/a"), container("new", "evil.io/b")
    policy = allowed_repos.bind(repos=["fine.io"])
    problem = "container new: image evil.io/b must come from fine.io"
    assert message(policy, pod_spec(old, now), old=pod_spec(old)) == problem
    assert message(policy, pod_spec({**old, "image": "evil.io/b"}), old=pod_spec(old))


def test_ephemeral_containers_of_older_servers() -> None:
    debug = [container("debug", "bad.io/a")]
    obj: Json = {"apiVersion": "v1", "kind": "EphemeralContainers", "metadata": {}, "ephemeralContainers": debug}
    review = review_of("Pod", None, operation="UPDATE", obj=obj, subResource="ephemeralcontainers")
    assert isinstance(allowed_repos(review), Deny)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": {"a": container()}},
        {"containers": ["bad"]},
        {"containers": [None]},
        {"initContainers": "bad"},
        {"containers": [], "volumes": "bad"},
        {"containers": [], "volumes": [None]},
        {"containers": [], "volumes": [{"image": "bad"}]},
    ],
    ids=repr,
)
def test_malformed_objects_are_denied(spec: Json) -> None:
    outcome = decide_on_pod(allowed_repos, spec)
    assert isinstance(outcome, Deny)
    assert outcome.code == 500


@pytest.mark.parametrize("repo", ["", "*", "good.io/*", "good.io:x/", "good.io/a:1", "https://good.io"])
def test_invalid_repositories_deny_everything(repo: str) -> None:
    assert isinstance(decide_on_pod(allowed_repos.bind(repos=[repo]), pod_spec(container(image="good.io/a"))), Deny)


def test_the_default_is_the_registry_of_kubernetes() -> None:
    assert message(allowed_repos, pod_spec(container(image="registry.k8s.io/pause"))) is None
    assert message(allowed_repos, pod_spec(container(image="nginx")))


@pytest.mark.parametrize("repos", ["good.io", [5], None, {"good.io": True}], ids=repr)
def test_parameters_are_checked(repos: Any) -> None:
    with pytest.raises(ConfigurationError):
        allowed_repos.bind(repos=repos)
