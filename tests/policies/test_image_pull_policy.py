from typing import Any

import pytest

from webhooks import Deny
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json, admission_review, pod, recorded_bodies
from .mutations import mutated_object
from .pods import LISTS, container

[image_pull_policy] = load(["library:image_pull_policy"])


def pulled(policy: Any, **fields: Any) -> Json:
    return container(imagePullPolicy=policy, **fields)


@pytest.mark.parametrize("list_", LISTS)
@pytest.mark.parametrize("before", [container(), *map(pulled, ["Always", "IfNotPresent", "Never", "", None])], ids=repr)
@pytest.mark.parametrize("policy", ["Always", "IfNotPresent", "Never"])
def test_all_containers_are_changed(policy: str, before: Json, list_: str) -> None:
    obj = pod(**{"containers": [], list_: [before, container("other")]})
    result = [pulled(policy), {**pulled(policy), "name": "other"}]
    assert mutated_object(image_pull_policy.bind(policy=policy), obj) == pod(**{"containers": [], list_: result})


def test_image_volumes_are_changed() -> None:
    disk, model = (
        {"name": "disk", "emptyDir": {}},
        {"name": "model", "image": {"reference": "registry.example.com/model"}},
    )
    result = {"name": "model", "image": {"reference": "registry.example.com/model", "pullPolicy": "Always"}}
    assert mutated_object(image_pull_policy, pod(containers=[], volumes=[disk, model])) == pod(
        containers=[], volumes=[disk, result]
    )


def test_images_may_be_exempt() -> None:
    policy = image_pull_policy.bind(exempt_images=["registry.example.com/base/*", "nginx:1"])
    exempt = ["registry.example.com/base/web", "nginx:1", "docker.io/library/nginx:1"]
    others = ["registry.example.com/basement", "nginx", "registry.example.com.evil.org/base/web", "", "NO IMAGE"]
    left = [pulled("Never", image=image) for image in exempt]
    obj = pod(containers=[*left, *(pulled("Never", image=image) for image in others)])
    assert mutated_object(policy, obj) == pod(containers=[*left, *(pulled("Always", image=image) for image in others)])


def test_only_new_containers_of_a_running_pod_are_changed() -> None:
    old = pod(ephemeralContainers=[pulled("Never")])
    obj = pod(ephemeralContainers=[pulled("Never"), pulled("Never", name="new")])
    result = pod(ephemeralContainers=[pulled("Never"), pulled("Always", name="new")])
    update = {"operation": "UPDATE", "old": old}
    assert mutated_object(image_pull_policy, obj, subResource="ephemeralcontainers", **update) == result
    assert (
        mutated_object(image_pull_policy, {**old, "metadata": {"name": "web", "labels": {"a": "b"}}}, **update)["spec"]
        == old["spec"]
    )


def test_ephemeral_containers_of_older_servers() -> None:
    obj = {"kind": "EphemeralContainers", "metadata": {}, "ephemeralContainers": [pulled("Never")]}
    result = {**obj, "ephemeralContainers": [pulled("Always")]}
    assert mutated_object(image_pull_policy, obj, operation="UPDATE", subResource="ephemeralcontainers") == result


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, True),
        ({"operation": "UPDATE"}, True),
        ({"operation": "UPDATE", "subResource": "ephemeralcontainers"}, True),
        ({"operation": "UPDATE", "subResource": "status"}, False),
        ({"operation": "DELETE"}, False),
        ({"operation": "CONNECT", "subResource": "exec"}, False),
        ({"resource": "apps/v1/deployments"}, False),
    ],
)
def test_matching_resources(request_: Json, expected: bool) -> None:
    assert image_pull_policy.match.matches_resource(admission_review(**request_)) is expected


@pytest.mark.parametrize(
    "spec", [{"containers": {"a": {}}}, {"containers": ["a"]}, {"initContainers": [None]}, {"volumes": "x"}], ids=repr
)
def test_malformed_objects_are_denied(spec: Json) -> None:
    assert isinstance(mutated_object(image_pull_policy, pod(**spec)), Deny)


@pytest.mark.parametrize("policy", ["always", "", None, 5, ["Always"]], ids=repr)
def test_parameters_are_checked(policy: Any) -> None:
    with pytest.raises(ConfigurationError):
        image_pull_policy.bind(policy=policy)


def test_nothing_else_in_a_pod_is_changed() -> None:
    obj = recorded_bodies("/mutate")["009-mutate-create-pods"]["request"]["object"]
    result = mutated_object(image_pull_policy.bind(policy="Never"), obj)
    for list_ in ("containers", "initContainers"):
        assert obj["spec"][list_]
        obj["spec"][list_] = [{**container, "imagePullPolicy": "Never"} for container in obj["spec"][list_]]
    assert result == obj
