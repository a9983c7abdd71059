from typing import Any

import pytest

from webhooks import Deny
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json, admission_review, pod, recorded
from .mutations import stored
from .objects import LISTS, container

[image_pull_policy] = load(["library:image_pull_policy"])


def pulled(policy: Any, **fields: Any) -> Json:
    return container(imagePullPolicy=policy, **fields)


@pytest.mark.parametrize("list_", LISTS)
@pytest.mark.parametrize("before", [container(), *map(pulled, ["Always", "IfNotPresent", "Never", "", None])], ids=repr)
@pytest.mark.parametrize("policy", ["Always", "IfNotPresent", "Never"])
def test_every_container_has_it(policy: str, before: Json, list_: str) -> None:
    obj = pod(**{"containers": [], list_: [before, container("other")]})
    result = [pulled(policy), {**pulled(policy), "name": "other"}]
    assert stored(image_pull_policy.bind(policy=policy), obj) == pod(**{"containers": [], list_: result})


def test_volumes_that_are_filled_from_images_have_it() -> None:
    disk, model = (
        {"name": "disk", "emptyDir": {}},
        {"name": "model", "image": {"reference": "registry.example.com/model"}},
    )
    result = {"name": "model", "image": {"reference": "registry.example.com/model", "pullPolicy": "Always"}}
    assert stored(image_pull_policy, pod(containers=[], volumes=[disk, model])) == pod(
        containers=[], volumes=[disk, result]
    )


def test_images_may_be_exempt() -> None:
    policy = image_pull_policy.bind(exempt_images=["registry.example.com/base/*", "nginx:1"])
    exempt = ["registry.example.com/base/web", "nginx:1", "docker.io/library/nginx:1"]
    others = ["registry.example.com/basement", "nginx", "registry.example.com.evil.org/base/web", "", "NO IMAGE"]
    left = [pulled("Never", image=image) for image in exempt]
    obj = pod(containers=[*left, *(pulled("Never", image=image) for image in others)])
    assert stored(policy, obj) == pod(containers=[*left, *(pulled("Always", image=image) for image in others)])


def test_of_a_pod_that_runs_it_is_new_containers_alone() -> None:
    old = pod(ephemeralContainers=[pulled("Never")])
    obj = pod(ephemeralContainers=[pulled("Never"), pulled("Never", name="new")])
    result = pod(ephemeralContainers=[pulled("Never"), pulled("Always", name="new")])
    update = {"operation": "UPDATE", "old": old}
    assert stored(image_pull_policy, obj, subResource="ephemeralcontainers", **update) == result
    assert (
        stored(image_pull_policy, {**old, "metadata": {"name": "web", "labels": {"a": "b"}}}, **update)["spec"]
        == old["spec"]
    )


def test_ephemeral_containers_as_older_servers_send_them() -> None:
    obj = {"kind": "EphemeralContainers", "metadata": {}, "ephemeralContainers": [pulled("Never")]}
    result = {**obj, "ephemeralContainers": [pulled("Always")]}
    assert stored(image_pull_policy, obj, operation="UPDATE", subResource="ephemeralcontainers") == result


@pytest.mark.parametrize(
    ("request_", "wanted"),
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
def test_it_asks_about_pods_alone(request_: Json, wanted: bool) -> None:
    assert image_pull_policy.match.matches_resource(admission_review(**request_)) is wanted


@pytest.mark.parametrize(
    "spec", [{"containers": {"a": {}}}, {"containers": ["a"]}, {"initContainers": [None]}, {"volumes": "x"}], ids=repr
)
def test_where_an_image_could_hide_is_denied(spec: Json) -> None:
    assert isinstance(stored(image_pull_policy, pod(**spec)), Deny)


@pytest.mark.parametrize("policy", ["always", "", None, 5, ["Always"]], ids=repr)
def test_its_parameters_are_checked(policy: Any) -> None:
    with pytest.raises(ConfigurationError):
        image_pull_policy.bind(policy=policy)


def test_nothing_else_of_a_real_pod_is_changed() -> None:
    obj = recorded("/mutate")["009-mutate-create-pods"]["request"]["object"]
    result = stored(image_pull_policy.bind(policy="Never"), obj)
    for list_ in ("containers", "initContainers"):
        assert obj["spec"][list_]
        obj["spec"][list_] = [{**each, "imagePullPolicy": "Never"} for each in obj["spec"][list_]]
    assert result == obj
