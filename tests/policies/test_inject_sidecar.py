from typing import Any

import pytest

from webhooks import Allow, Deny
from webhooks.errors import ConfigurationError, MalformedReview
from webhooks.policy.loader import load

from ..support.builders import Json, admission_review, pod, recorded_bodies
from .mutations import mutated_object
from .pods import LISTS, container

[inject_sidecar] = load(["library:inject_sidecar"])

PROXY = {
    "name": "proxy",
    "image": "registry.example.com/proxy:1",
    "volumeMounts": [{"name": "proxy", "mountPath": "/run"}],
}
VOLUMES = [{"name": "proxy", "emptyDir": {}}, {"name": "proxy-config", "configMap": {"name": "proxy"}}]
KEY = "webhooks.svc.io/inject-sidecar"
EVERYWHERE = {"container": PROXY, "namespaces": ["*"]}
APP = container()

# Parameters, the annotations and labels of a pod in team-a, and whether it is selected.
MEANT: list[tuple[Json, dict[str, str], dict[str, str], bool]] = [
    ({}, {}, {}, False),
    ({}, {KEY: "true"}, {}, True),
    ({}, {KEY: "True"}, {}, False),
    ({}, {KEY: ""}, {}, False),
    ({}, {}, {KEY: "true"}, False),
    ({"annotation": "inject"}, {"inject": "true"}, {}, True),
    ({"annotation": "inject"}, {KEY: "true"}, {}, False),
    ({"namespaces": ["team-a"]}, {}, {}, True),
    ({"namespaces": ["team-b", "team-?"]}, {}, {}, True),
    ({"namespaces": ["team"]}, {}, {}, False),
    ({"namespaces": ["TEAM-A"]}, {}, {}, False),
    ({"namespaces": ["team-a"]}, {KEY: "false"}, {}, False),
    ({"namespaces": ["team-b"]}, {KEY: "true"}, {}, True),
    ({"labels": {"app": "web"}}, {}, {"app": "web", "x": "y"}, True),
    ({"labels": {"app": "web"}}, {}, {"app": "db"}, False),
    ({"labels": {"app": "web"}}, {}, {}, False),
    ({"labels": {"app": "web", "tier": "1"}}, {}, {"app": "web"}, False),
    ({"labels": {"app": "web"}}, {KEY: "no"}, {"app": "web"}, False),
    ({"labels": {"app": "web"}, "namespaces": ["team-a"]}, {}, {"app": "web"}, True),
    ({"labels": {"app": "web"}, "namespaces": ["team-b"]}, {}, {"app": "web"}, False),
    ({"labels": {"app": "web"}, "namespaces": ["team-a"]}, {}, {"app": "db"}, False),
    ({"annotation": "", "namespaces": ["team-a"]}, {KEY: "false", "": "false"}, {}, True),
    ({"annotation": ""}, {KEY: "true", "": "true"}, {}, False),
    ({"namespaces": ["team-a"]}, {"kubernetes.io/config.mirror": "1"}, {}, False),
    ({"container": {}, "volumes": VOLUMES, "namespaces": ["team-a"]}, {}, {}, False),
]


@pytest.mark.parametrize(("parameters", "annotations", "labels", "selected"), MEANT, ids=repr)
def test_selected_pods(parameters: Json, annotations: Any, labels: Any, selected: bool) -> None:
    obj = pod(containers=[APP])
    obj["metadata"].update(annotations=annotations, labels=labels)
    result = mutated_object(inject_sidecar.bind(**{"container": PROXY, **parameters}), obj)
    assert result == {**obj, "spec": {"containers": [APP, PROXY] if selected else [APP]}}


NATIVE = {**PROXY, "restartPolicy": "Always"}
OWN = container("proxy", "own:1")

# Parameters, and a pod before and after.
INJECTED: list[tuple[Json, Json, Json]] = [
    ({}, {"containers": [APP]}, {"containers": [APP, PROXY]}),
    ({}, {"containers": []}, {"containers": [PROXY]}),
    ({}, {"containers": None}, {"containers": [PROXY]}),
    ({}, {}, {"containers": [PROXY]}),
    ({"native": True}, {"containers": [APP]}, {"containers": [APP], "initContainers": [NATIVE]}),
    ({"native": True}, {"initContainers": None}, {"initContainers": [NATIVE]}),
    ({"native": True}, {"initContainers": [APP]}, {"initContainers": [NATIVE, APP]}),
    ({"native": True, "container": NATIVE}, {"initContainers": []}, {"initContainers": [NATIVE]}),
    ({"volumes": VOLUMES}, {"containers": [APP]}, {"containers": [APP, PROXY], "volumes": VOLUMES}),
    ({"volumes": VOLUMES}, {"volumes": None}, {"containers": [PROXY], "volumes": VOLUMES}),
    (
        {"volumes": VOLUMES},
        {"containers": [APP], "volumes": [{"name": "proxy", "secret": {}}, {"name": "x"}]},
        {"containers": [APP, PROXY], "volumes": [{"name": "proxy", "secret": {}}, {"name": "x"}, VOLUMES[1]]},
    ),
    ({"volumes": VOLUMES}, {"containers": [OWN]}, {"containers": [OWN], "volumes": VOLUMES}),
    ({"native": True}, {"containers": [OWN]}, {"containers": [OWN]}),
]
INJECTED += [({"native": native}, {list_: [OWN]}, {list_: [OWN]}) for list_ in LISTS for native in (True, False)]


@pytest.mark.parametrize(("parameters", "spec", "result"), INJECTED, ids=repr)
def test_missing_values_are_added(parameters: Json, spec: Json, result: Json) -> None:
    obj = {**pod(), "spec": spec}
    assert mutated_object(inject_sidecar.bind(**EVERYWHERE).bind(**parameters), obj) == {**obj, "spec": result}


def test_two_sidecars() -> None:
    policy = inject_sidecar.bind(**EVERYWHERE)
    first = mutated_object(policy, pod(containers=[APP]))
    second = mutated_object(policy.bind(container=container("agent"), native=True), first)
    assert second["spec"] == {
        "containers": [APP, PROXY],
        "initContainers": [container("agent", restartPolicy="Always")],
    }
    assert mutated_object(policy, second) == second


def test_nothing_is_added_by_default() -> None:
    obj = pod()
    obj["metadata"]["annotations"] = {KEY: "true"}
    assert inject_sidecar(admission_review(obj=obj)) == Allow()


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, True),
        ({"operation": "UPDATE"}, False),
        ({"operation": "UPDATE", "subResource": "ephemeralcontainers"}, False),
        ({"operation": "DELETE"}, False),
        ({"resource": "apps/v1/deployments"}, False),
    ],
)
def test_it_matches_only_new_pods(request_: Json, expected: bool) -> None:
    assert inject_sidecar.match.matches_resource(admission_review(**request_)) is expected


@pytest.mark.parametrize(
    "spec",
    [
        None,
        [],
        "x",
        {"containers": "x"},
        {"containers": [None]},
        {"initContainers": {}},
        {"volumes": {}},
        {"volumes": [5]},
    ],
    ids=repr,
)
@pytest.mark.parametrize("native", [True, False])
def test_pods_without_a_spec_are_denied(spec: Any, native: bool) -> None:
    try:
        outcome = mutated_object(inject_sidecar.bind(**EVERYWHERE, native=native), {**pod(), "spec": spec})
    except MalformedReview as malformed:
        outcome = Deny(str(malformed))
    assert isinstance(outcome, Deny)


@pytest.mark.parametrize("annotations", ["x", {KEY: True}, [KEY]], ids=repr)
def test_malformed_annotations_are_malformed(annotations: Any) -> None:
    obj = pod()
    obj["metadata"]["annotations"] = annotations
    with pytest.raises(MalformedReview):
        mutated_object(inject_sidecar.bind(**EVERYWHERE), obj)


def test_a_container_without_a_name_is_denied() -> None:
    assert isinstance(mutated_object(inject_sidecar.bind(container={"image": "x"}, namespaces=["*"]), pod()), Deny)


@pytest.mark.parametrize(
    "parameters",
    [
        {"container": "x"},
        {"container": [PROXY]},
        {"volumes": VOLUMES[0]},
        {"volumes": ["x"]},
        {"native": "yes"},
        {"annotation": None},
        {"labels": ["x"]},
        {"labels": {"x": 5}},
        {"namespaces": "x"},
    ],
    ids=repr,
)
def test_parameters_are_checked(parameters: Any) -> None:
    with pytest.raises(ConfigurationError):
        inject_sidecar.bind(**parameters)


def test_nothing_else_in_a_pod_is_changed() -> None:
    obj = recorded_bodies("/mutate")["009-mutate-create-pods"]["request"]["object"]
    result = mutated_object(inject_sidecar.bind(**EVERYWHERE), obj)
    assert result["spec"]["containers"].pop() == PROXY
    assert result == obj
