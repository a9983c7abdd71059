from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import container, message, pod_spec
from .resources import check_parameter, check_resizing, check_resources, using

[container_limits] = load(["library:container_limits"])
limited = container_limits.bind(cpu="2", memory="4Gi")

CPU = "container app: resources.limits.cpu"
MEMORY = "container app: resources.limits.memory"
LIMITS: list[tuple[Json, Json | None, str | None]] = [
    ({}, {"cpu": "64", "memory": "1Ti"}, None),
    ({}, {"cpu": "64"}, f"{MEMORY} is missing"),
    ({}, {}, f"{CPU} is missing; {MEMORY} is missing"),
    ({}, None, f"{CPU} is missing; {MEMORY} is missing"),
    ({}, {"cpu": None, "memory": "1"}, f"{CPU} is missing"),
    ({"cpu": "2"}, {"cpu": "2", "memory": "1"}, None),
    ({"cpu": "2"}, {"cpu": "2000m", "memory": "1"}, None),
    ({"cpu": "2"}, {"cpu": 2, "memory": 1}, None),
    ({"cpu": "2"}, {"cpu": 1.5, "memory": "1"}, None),
    ({"cpu": "2"}, {"cpu": "2e0", "memory": "1"}, None),
    ({"cpu": "2000m"}, {"cpu": "2", "memory": "1"}, None),
    ({"cpu": "2"}, {"cpu": "2001m", "memory": "1"}, f"{CPU} is 2001m: set it to at most 2"),
    ({"cpu": "2"}, {"cpu": "2000000001n", "memory": "1"}, f"{CPU} is 2000000001n: set it to at most 2"),
    ({"cpu": "2"}, {"cpu": "1k", "memory": "1"}, f"{CPU} is 1k: set it to at most 2"),
    ({"cpu": "2"}, {"memory": "1"}, f"{CPU} is missing: set it to at most 2"),
    ({"memory": "4Gi"}, {"cpu": "1", "memory": "4Gi"}, None),
    ({"memory": "4Gi"}, {"cpu": "1", "memory": "4294967296"}, None),
    ({"memory": "4Gi"}, {"cpu": "1", "memory": "4294967296000m"}, None),
    (
        {"memory": "4Gi"},
        {"cpu": "1", "memory": "4294967297"},
        f"{MEMORY} is 4294967297: set it to at most 4Gi",
    ),
    ({"memory": "4G"}, {"cpu": "1", "memory": "4Gi"}, f"{MEMORY} is 4Gi: set it to at most 4G"),
    ({"memory": "4Gi"}, {"cpu": "1", "memory": "1E"}, f"{MEMORY} is 1E: set it to at most 4Gi"),
    ({"memory": "4Gi"}, {"cpu": "1", "memory": "4e9"}, None),
    ({}, {"cpu": "0", "memory": "1"}, f"{CPU} is 0, which means no limit"),
    ({"memory": "4Gi"}, {"cpu": "1", "memory": "0Gi"}, f"{MEMORY} is 0Gi, which means no limit: set it to at most 4Gi"),
    ({}, {"cpu": "-1", "memory": "1"}, f"{CPU} is -1, which means no limit"),
    ({"cpu": "-1"}, {"memory": "1"}, None),
    ({"cpu": "-1"}, {"cpu": "lots", "memory": "1"}, None),
    ({"cpu": "-1", "memory": "-1"}, None, None),
    ({"memory": "-1"}, {"cpu": "1"}, None),
    ({"cpu": "-1", "memory": "1Gi"}, {}, f"{MEMORY} is missing: set it to at most 1Gi"),
]


@pytest.mark.parametrize(("parameters", "limits", "problem"), LIMITS, ids=repr)
def test_limits_are_compared(parameters: Json, limits: Json | None, problem: str | None) -> None:
    assert message(container_limits.bind(**parameters), pod_spec(using(limits))) == problem


@pytest.mark.parametrize("value", ["1GB", "lots", "", " 1", "1 Gi", True, [], {}, ["1Gi"]], ids=repr)
def test_an_invalid_limit_is_denied(value: Any) -> None:
    problem = message(container_limits, pod_spec(using({"cpu": "1", "memory": value}))) or ""
    assert problem.startswith(f"{MEMORY} is an invalid quantity {value!r}: ")


def test_requests_do_not_count_as_limits() -> None:
    assert message(container_limits, pod_spec(using(None, {"cpu": "1", "memory": "1"})))


def test_containers_without_resources_have_no_limits() -> None:
    assert message(container_limits, pod_spec(container())) == f"{CPU} is missing; {MEMORY} is missing"


def test_all_objects() -> None:
    good, bad = using({"cpu": "1", "memory": "1Gi"}), using({"cpu": "1", "memory": "8Gi"})
    check_resources(limited, good, bad)
    check_resources(container_limits, good, using({"cpu": "1"}))
    check_resizing(limited, good, bad)


def test_a_different_violation_is_new() -> None:
    old = pod_spec(using({"cpu": "1", "memory": "8Gi"}))
    assert message(limited, pod_spec(using({"cpu": "1", "memory": "16Gi"})), old=old)
    assert message(limited, pod_spec(using({"cpu": "4", "memory": "8Gi"})), old=old) == (
        f"{CPU} is 4: set it to at most 2"
    )


def test_parameters_are_checked() -> None:
    check_parameter(limited, "cpu", using({"cpu": "1", "memory": "1"}))
    check_parameter(limited, "memory", using({"cpu": "1", "memory": "1"}))
    for parameters in ({"cpu": 2}, {"memory": None}, {"exempt_images": "nginx"}, {"disk": "1"}):
        with pytest.raises(ConfigurationError):
            container_limits.bind(**parameters)
