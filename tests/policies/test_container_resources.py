from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import message, pod_spec
from .resources import check_resizing, check_resources, using

[container_resources] = load(["library:container_resources"])

BOTH = {"cpu": "1", "memory": "1Gi"}
MEMORY = "container app: resources.limits.memory is missing"
CPU = "container app: resources.requests.cpu is missing"
CASES: list[tuple[list[str], list[str], Json | None, Json | None, str | None]] = [
    (["cpu", "memory"], ["cpu", "memory"], BOTH, BOTH, None),
    (["cpu", "memory"], ["cpu", "memory"], BOTH, None, None),
    (["cpu", "memory"], [], BOTH, None, None),
    (["memory"], ["cpu"], {"memory": "1"}, {"cpu": "1"}, None),
    (["memory"], ["cpu"], {"memory": "1", "cpu": "1"}, None, None),
    (["memory"], ["cpu"], {"memory": "1"}, {"memory": "1"}, CPU),
    (
        ["memory"],
        ["cpu"],
        None,
        {"memory": "1"},
        f"{MEMORY}; {CPU}",
    ),
    ([], [], None, None, None),
    ([], ["memory"], {"memory": None}, {"memory": None}, "container app: resources.requests.memory is missing"),
    (["memory"], [], {"memory": None}, None, MEMORY),
    (["memory"], [], {"memory": "0"}, None, MEMORY),
    (["memory"], [], {"memory": "0Gi"}, None, MEMORY),
    (["memory"], [], {"memory": "much"}, None, MEMORY),
    ([], ["cpu"], None, {"cpu": "0"}, None),
    ([], ["cpu"], None, {"cpu": []}, CPU),
    ([], ["cpu"], {"cpu": "1"}, {"cpu": "much"}, CPU),
    (["ephemeral-storage"], [], {"ephemeral-storage": "1Gi"}, None, None),
    (["ephemeral-storage"], [], BOTH, None, "container app: resources.limits.ephemeral-storage is missing"),
]


@pytest.mark.parametrize(("limits", "requests", "limited", "requested", "problem"), CASES, ids=repr)
def test_resources_are_required(
    limits: list[str], requests: list[str], limited: Json | None, requested: Json | None, problem: str | None
) -> None:
    policy = container_resources.bind(limits=limits, requests=requests)
    assert message(policy, pod_spec(using(limited, requested))) == problem


def test_cpu_and_memory_are_required_by_default() -> None:
    assert message(container_resources, pod_spec(using(BOTH, BOTH))) is None
    assert (message(container_resources, pod_spec(using())) or "").count("is missing") == 4


def test_all_objects() -> None:
    check_resources(container_resources, using(BOTH), using({"cpu": "1"}))
    check_resizing(container_resources, using(BOTH), using({"cpu": "1"}))


@pytest.mark.parametrize("name", ["limits", "requests", "exempt_images"])
@pytest.mark.parametrize("value", ["cpu", None, [5], {"cpu": "1"}], ids=repr)
def test_parameters_are_checked(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        container_resources.bind(**{name: value})
