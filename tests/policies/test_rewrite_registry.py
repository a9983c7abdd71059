from typing import Any

import pytest

from webhooks import Allow, Deny
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json, admission_review, pod
from .mutations import mutated_object
from .pods import LISTS, RESOURCES, container, make_object, pod_spec

[rewrite_registry] = load(["library:rewrite_registry"])

DIGEST = f"sha256:{'a' * 64}"
HUB = {"docker.io": "mirror.example.com/hub"}

# Parameters, and images with their new value; None if they are not changed.
IMAGES: list[tuple[dict[str, str], dict[str, str | None]]] = [
    (
        HUB,
        {
            "nginx": "mirror.example.com/hub/library/nginx:latest",
            "nginx:1.2": "mirror.example.com/hub/library/nginx:1.2",
            "index.docker.io/nginx:1": "mirror.example.com/hub/library/nginx:1",
            "bitnami/nginx:1": "mirror.example.com/hub/bitnami/nginx:1",
            f"a/b/c@{DIGEST}": f"mirror.example.com/hub/a/b/c@{DIGEST}",
            f"a/b:1@{DIGEST}": f"mirror.example.com/hub/a/b:1@{DIGEST}",
            "docker.io.example.com/nginx": None,
            "docker.io:443/nginx": None,
            "xdocker.io/nginx": None,
            "quay.io/docker.io/nginx": None,
            "mirror.example.com/hub/library/nginx:1": None,
            "mirror.example.com/hubs/web": None,
            "": None,
        },
    ),
    (
        {
            "docker.io": "a.example.com",
            "docker.io/library": "b.example.com/official/",
            "library/nginx/": "c.example.com/web",
        },
        {
            "team/web:1": "a.example.com/team/web:1",
            "redis:1": "b.example.com/official/redis:1",
            "nginx:1": "c.example.com/web:1",
            "nginx/sub:1": "a.example.com/nginx/sub:1",
            "libraryx/web:1": "a.example.com/libraryx/web:1",
        },
    ),
    # Rules that follow one another, that go round, and that lead into themselves.
    ({"a.io": "b.io", "b.io": "c.io"}, {"a.io/x:1": "b.io/x:1", "b.io/x:1": None, "c.io/x:1": None}),
    ({"a.io": "b.io", "b.io": "a.io"}, {"a.io/x:1": None, "b.io/x:1": None}),
    ({"a.io": "a.io/mirrored"}, {"a.io/x:1": "a.io/mirrored/x:1", "a.io/mirrored/x:1": None}),
    ({"a.io": "a.io"}, {"a.io/x:1": None}),
    ({"localhost:5000": "[::1]:5000/x"}, {"localhost:5000/web:1": "[::1]:5000/x/web:1", "localhost/web": None}),
    ({"A.io": "b.io"}, {"a.io/x:1": "b.io/x:1", "A.IO/x:1": "b.io/x:1"}),
    ({"a.io": "team"}, {"a.io/x:1": "team/x:1", "docker.io/team/x": None}),
    ({}, {"nginx": None, "no image": None}),
]


@pytest.mark.parametrize(("registries", "images"), IMAGES, ids=repr)
def test_images_are_rewritten(registries: dict[str, str], images: dict[str, str | None]) -> None:
    policy = rewrite_registry.bind(registries=registries)
    for before, after in images.items():
        result = pod(containers=[container(image=before if after is None else after)])
        assert mutated_object(policy, pod(containers=[container(image=before)])) == result, before


def everywhere(image: str) -> Json:
    volume = {"name": "model", "image": {"reference": image, "pullPolicy": "Always"}}
    lists = {list_: [container(f"{list_}-1", image), container(f"{list_}-2", "a.io/b")] for list_ in LISTS}
    return {**lists, "volumes": [{"name": "disk", "emptyDir": {}}, volume]}


NEW = "mirror.example.com/hub/library/nginx:1"


@pytest.mark.parametrize("kind", RESOURCES)
def test_all_images_are_checked(kind: str) -> None:
    policy = rewrite_registry.bind(registries=HUB)
    before, after = make_object(kind, everywhere("nginx:1")), make_object(kind, everywhere(NEW))
    assert mutated_object(policy, before) == after
    update = {"operation": "UPDATE"}
    assert mutated_object(policy, before, **update) == after, "the old object is not changed"
    assert mutated_object(policy, before, old=before, **update) == before, "existing images are not changed"
    assert mutated_object(policy, before, old=make_object(kind, everywhere("nginx:2")), **update) == after
    assert mutated_object(policy, before, old=after, **update) == after, "as it was applied before"


def test_an_update_rewrites_only_new_images() -> None:
    old = pod(containers=[container("a", "nginx:1"), container("b", "nginx:1")])
    obj = pod(containers=[container("a", "nginx:1"), container("b", "nginx:2")])
    result = pod(containers=[container("a", "nginx:1"), container("b", "mirror.example.com/hub/library/nginx:2")])
    assert mutated_object(rewrite_registry.bind(registries=HUB), obj, operation="UPDATE", old=old) == result


@pytest.mark.parametrize(
    "obj",
    [
        pod(**everywhere("nginx:1")),
        {
            "apiVersion": "v1",
            "kind": "EphemeralContainers",
            "metadata": {},
            "ephemeralContainers": [container("d", "nginx:1")],
        },
    ],
    ids=["as now", "as of old"],
)
def test_ephemeral_containers_are_changed(obj: Json) -> None:
    old = pod(containers=everywhere("nginx:1")["containers"])
    request = {"operation": "UPDATE", "old": old, "subResource": "ephemeralcontainers"}
    result = mutated_object(rewrite_registry.bind(registries=HUB), obj, **request)
    of = result.get("spec", result)
    assert of["ephemeralContainers"][0]["image"] == NEW
    assert of.get("containers", []) == obj.get("spec", {}).get("containers", [])


OWNER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1"}


@pytest.mark.parametrize(
    ("owners", "left"),
    [
        (None, False),
        ([], False),
        ([OWNER], False),
        ([{**OWNER, "controller": True}], True),
        ([OWNER, {"controller": True}], True),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["ReplicaSet", "Job", "Pod"])
def test_workloads_with_a_controller_are_not_changed(kind: str, owners: Any, left: bool) -> None:
    obj = make_object(kind, pod_spec(container(image="nginx:1")))
    obj["metadata"]["ownerReferences"] = owners
    result = mutated_object(rewrite_registry.bind(registries=HUB), obj)
    assert (result == obj) is (left and kind != "Pod")


@pytest.mark.parametrize(
    "image", ["NGINX", "nginx:", " nginx", "nginx ", "https://nginx", "a//b", f"{'a' * 64}", "x" * 1000]
)
def test_invalid_images_are_denied(image: str) -> None:
    policy = rewrite_registry.bind(registries=HUB)
    obj = pod(containers=[container("a", "nginx"), container("b", image)], initContainers=[container("c", image)])
    denial = mutated_object(policy, obj)
    assert isinstance(denial, Deny)
    assert denial.message == "; ".join(
        f"{name}: {image[:60]!r} is not a valid image reference" for name in ("container b", "init container c")
    )
    assert mutated_object(policy, obj, operation="UPDATE", old=obj) == obj


@pytest.mark.parametrize(
    "spec", [{"containers": {"a": {}}}, {"containers": ["a"]}, {"initContainers": [None]}, {"volumes": "x"}], ids=repr
)
def test_malformed_objects_are_denied(spec: Json) -> None:
    assert isinstance(mutated_object(rewrite_registry.bind(registries=HUB), pod(**spec)), Deny)


@pytest.mark.parametrize(
    "registries",
    [
        {"": "a.io"},
        {"*": "a.io"},
        {"docker.io": ""},
        {"docker.io": "a.io/*"},
        {"docker.io": "a.io/b:1"},
        {"library/nginx": "a.io"},
    ],
    ids=repr,
)
def test_invalid_places_deny_everything(registries: Any) -> None:
    outcome = mutated_object(rewrite_registry.bind(registries=registries), pod(containers=[container(image="nginx:1")]))
    assert isinstance(outcome, Deny)
    assert outcome.code == 500


def test_nothing_is_rewritten_by_default() -> None:
    assert rewrite_registry(admission_review(obj=pod())) == Allow()


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        *(({"resource": resource}, True) for resource in RESOURCES.values()),
        ({"operation": "UPDATE"}, True),
        ({"operation": "UPDATE", "subResource": "ephemeralcontainers"}, True),
        ({"operation": "UPDATE", "subResource": "status"}, False),
        ({"operation": "DELETE"}, False),
        ({"operation": "CONNECT", "subResource": "exec"}, False),
        ({"resource": "apps/v1/deployments", "subResource": "scale"}, False),
        ({"resource": "v1/services"}, False),
    ],
)
def test_matching_resources(request_: Json, expected: bool) -> None:
    assert rewrite_registry.match.matches_resource(admission_review(**request_)) is expected


@pytest.mark.parametrize("registries", ["a.io", ["a.io"], {"a.io": 5}, None], ids=repr)
def test_parameters_are_checked(registries: Any) -> None:
    with pytest.raises(ConfigurationError):
        rewrite_registry.bind(registries=registries)
