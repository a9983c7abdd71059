from typing import Any

import pytest

from webhooks import Deny
from webhooks.errors import ConfigurationError, MalformedReview
from webhooks.policy.loader import load

from ..support.builders import Json, admission_review, pod, recorded_bodies
from .mutations import mutated_object
from .pods import SHAPES, container

[default_resources] = load(["library:default_resources"])

REQUESTS = {"cpu": "100m", "memory": "64Mi"}
LIMITS = {"memory": "128Mi"}
BOTH = {"requests": REQUESTS, "limits": LIMITS}

# Parameters, and the resources of a container before and after.
RESOURCES: list[tuple[Json, Any, Any]] = [
    (BOTH, ..., BOTH),
    (BOTH, None, BOTH),
    (BOTH, {}, BOTH),
    (BOTH, {"requests": None, "limits": {}}, BOTH),
    (BOTH, BOTH, BOTH),
    (BOTH, {"claims": [{"name": "gpu"}]}, {"claims": [{"name": "gpu"}], **BOTH}),
    (BOTH, {"requests": {"cpu": "2"}}, {"requests": {"cpu": "2", "memory": "64Mi"}, "limits": LIMITS}),
    (BOTH, {"requests": {"nvidia.com/gpu": "1"}}, {"requests": {**REQUESTS, "nvidia.com/gpu": "1"}, "limits": LIMITS}),
    # A limit alone is the request too.
    (BOTH, {"limits": {"memory": "32Mi"}}, {"requests": {"cpu": "100m"}, "limits": {"memory": "32Mi"}}),
    (BOTH, {"limits": {"cpu": "1", "memory": "1Gi"}}, {"limits": {"cpu": "1", "memory": "1Gi"}}),
    # No limit below the request, in whatever units.
    (
        BOTH,
        {"requests": {"memory": "1Gi"}},
        {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    ),
    (
        BOTH,
        {"requests": {"cpu": 1, "memory": "134217728"}},
        {"requests": {"cpu": 1, "memory": "134217728"}, "limits": LIMITS},
    ),
    (
        {"requests": {}, "limits": {"cpu": "1"}},
        {"requests": {"cpu": "1001m"}},
        {"requests": {"cpu": "1001m"}, "limits": {"cpu": "1001m"}},
    ),
    ({"requests": {}, "limits": {"cpu": "1"}}, ..., {"limits": {"cpu": "1"}}),
    ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, ..., {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}),
    ({"requests": {}}, ..., ...),
    ({"requests": {}}, {}, {}),
    ({}, ..., {"requests": {"cpu": "100m", "memory": "128Mi"}}),
]


def having(resources: Any) -> Json:
    return container() if resources is ... else container(resources=resources)


@pytest.mark.parametrize("list_", ["containers", "initContainers"])
@pytest.mark.parametrize(("parameters", "resources", "result"), RESOURCES, ids=repr)
def test_missing_values_are_set(parameters: Json, resources: Any, result: Any, list_: str) -> None:
    policy = default_resources.bind(**parameters)
    obj = pod(**{"containers": [], list_: [having(resources)]})
    assert mutated_object(policy, obj) == pod(**{"containers": [], list_: [having(result)]})


def test_each_container_is_changed_separately() -> None:
    full = having({"requests": {"cpu": "1", "memory": "1Mi"}})
    spec = {
        "containers": [container("a"), full, container("b")],
        "initContainers": [container("c", restartPolicy="Always")],
    }
    result = mutated_object(default_resources, pod(**spec))["spec"]
    given = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    assert result["containers"] == [container("a", resources=given), full, container("b", resources=given)]
    assert result["initContainers"] == [container("c", restartPolicy="Always", resources=given)]


def test_ephemeral_containers_are_not_changed() -> None:
    obj = pod(containers=[], ephemeralContainers=[container()])
    assert mutated_object(default_resources.bind(**BOTH), obj) == obj


def test_pods_with_resources_of_the_pod_are_not_changed() -> None:
    obj = pod(resources={"limits": {"cpu": "1"}})
    assert mutated_object(default_resources.bind(**BOTH), obj) == obj
    assert mutated_object(default_resources, pod(resources={})) != pod(resources={})


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, True),
        ({"operation": "UPDATE"}, False),
        ({"operation": "DELETE"}, False),
        ({"subResource": "resize"}, False),
        ({"resource": "apps/v1/deployments"}, False),
    ],
)
def test_it_matches_only_new_pods(request_: Json, expected: bool) -> None:
    assert default_resources.match.matches_resource(admission_review(**request_)) is expected


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != {}], ids=repr)
@pytest.mark.parametrize("place", ["resources", "requests", "limits"])
def test_malformed_resources_are_denied(place: str, shape: Any) -> None:
    resources = shape if place == "resources" else {place: shape}
    if shape == {"x": "y"}:
        return
    with pytest.raises(MalformedReview, match="must be an object"):
        mutated_object(default_resources.bind(**BOTH), pod(containers=[having(resources)]))


@pytest.mark.parametrize(
    "obj", [{}, {"spec": []}, pod(containers="x"), pod(containers=["x"]), pod(resources=[])], ids=repr
)
def test_objects_without_a_spec_are_unchanged_or_denied(obj: Json) -> None:
    try:
        outcome = mutated_object(default_resources, obj)
    except MalformedReview:
        return
    assert outcome == obj or isinstance(outcome, Deny)


def test_an_invalid_quantity_is_denied() -> None:
    resources = {"requests": {"memory": "much"}}
    assert isinstance(mutated_object(default_resources.bind(**BOTH), pod(containers=[having(resources)])), Deny)


@pytest.mark.parametrize("name", ["requests", "limits"])
@pytest.mark.parametrize("value", ["cpu=1", ["cpu"], {"cpu": 1}, None], ids=repr)
def test_parameters_are_checked(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        default_resources.bind(**{name: value})


def all_of(obj: Json) -> list[Json]:
    return [*obj["spec"]["containers"], *obj["spec"]["initContainers"]]


def test_nothing_else_in_a_pod_is_changed() -> None:
    obj = recorded_bodies("/mutate")["009-mutate-create-pods"]["request"]["object"]
    result = mutated_object(default_resources, obj)
    assert obj["spec"]["initContainers"]
    for was, now in zip(*map(all_of, (obj, result)), strict=True):
        resources = was.pop("resources", {})
        requests = {"cpu": "100m", "memory": "128Mi", **resources.get("requests", {})}
        assert now.pop("resources") == {**resources, "requests": requests}
    assert result == obj
