from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import message, pod_spec
from .resources import check_parameter, check_resizing, check_resources, using

[container_resource_ratios] = load(["library:container_resource_ratios"])

TWICE = {"ratio": "2"}
CASES: list[tuple[Json, Json | None, Json | None, str | None]] = [
    (TWICE, {"cpu": "2", "memory": "2Gi"}, {"cpu": "1", "memory": "1Gi"}, None),
    (TWICE, {"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, None),
    (TWICE, {"cpu": "0.2", "memory": "2048Mi"}, {"cpu": "100m", "memory": "1Gi"}, None),
    (
        TWICE,
        {"cpu": "201m", "memory": "1"},
        {"cpu": "100m"},
        "cpu is 201m: set it to at most 2 times",
    ),
    (
        TWICE,
        {"cpu": "1", "memory": "2147483649"},
        {"memory": "1Gi"},
        "memory is 2147483649: set it to at most 2 times",
    ),
    (TWICE, {"cpu": "1", "memory": "1"}, {"cpu": "0"}, "cpu is 1: set it to at most 2 times the request, which is 0"),
    (TWICE, {"cpu": "1", "memory": "1"}, None, None),
    (TWICE, {"cpu": "1", "memory": "1"}, {"cpu": None}, None),
    (TWICE, {"cpu": "1"}, {"cpu": "1", "memory": "1"}, "memory is missing"),
    (TWICE, None, {"cpu": "1", "memory": "1"}, "cpu is missing; container app: resources.limits.memory is missing"),
    (TWICE, {"cpu": "0", "memory": "1"}, {"cpu": "0"}, "cpu is 0, which means no limit"),
    (TWICE, {"cpu": "1x", "memory": "1"}, None, "cpu or its request is an invalid quantity '1x': "),
    (TWICE, {"cpu": "1", "memory": "1"}, {"cpu": "1x"}, "cpu or its request is an invalid quantity '1x': "),
    ({"ratio": "1.5"}, {"cpu": "1500m", "memory": "3"}, {"cpu": "1", "memory": "2"}, None),
    ({"ratio": "1.5"}, {"cpu": "1501m", "memory": "3"}, {"cpu": "1"}, "cpu is 1501m: set it to at most 1.5 times"),
    ({"ratio": "2", "cpu_ratio": "10"}, {"cpu": "1", "memory": "2"}, {"cpu": "100m", "memory": "1"}, None),
    (
        {"ratio": "2", "cpu_ratio": "10"},
        {"cpu": "1", "memory": "3"},
        {"memory": "1"},
        "memory is 3: set it to at most 2 ",
    ),
    (
        {"ratio": "10", "cpu_ratio": "1"},
        {"cpu": "2", "memory": "3"},
        {"cpu": "1"},
        "cpu is 2: set it to at most 1 ",
    ),
    ({"ratio": "0.5"}, {"cpu": "1", "memory": "1"}, {"memory": "2"}, "cpu is 1: set it to at most 0.5 times"),
]


@pytest.mark.parametrize(("parameters", "limits", "requests", "problem"), CASES, ids=repr)
def test_ratios_are_compared(parameters: Json, limits: Json | None, requests: Json | None, problem: str | None) -> None:
    denial = message(container_resource_ratios.bind(**parameters), pod_spec(using(limits, requests)))
    assert (
        denial is None if problem is None else (denial or "").startswith(f"container app: resources.limits.{problem}")
    )


def test_all_objects() -> None:
    good, bad = using({"cpu": "1", "memory": "1"}), using({"cpu": "1", "memory": "3"}, {"memory": "1"})
    check_resources(container_resource_ratios, good, bad)
    check_resizing(container_resource_ratios, good, bad)


@pytest.mark.parametrize("value", [2, None, ["2"]], ids=repr)
def test_parameters_are_checked(value: Any) -> None:
    check_parameter(container_resource_ratios, "ratio", using({"cpu": "1", "memory": "1"}))
    check_parameter(container_resource_ratios, "cpu_ratio", using({"cpu": "1", "memory": "1"}))
    for name in ("ratio", "cpu_ratio", "exempt_images"):
        with pytest.raises(ConfigurationError):
            container_resource_ratios.bind(**{name: 5 if name == "exempt_images" else value})
