from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import message, pod_spec
from .resources import check_parameter, check_resizing, check_resources, using

[container_requests] = load(["library:container_requests"])
bounded = container_requests.bind(cpu="2", memory="4Gi")

CPU = "container app: resources.requests.cpu"
MEMORY = "container app: resources.requests.memory"
REQUESTS: list[tuple[Json, Json | None, Json | None, str | None]] = [
    ({}, {"cpu": "64", "memory": "1Ti"}, None, None),
    ({}, {"cpu": "64"}, None, f"{MEMORY} is missing"),
    ({}, None, None, f"{CPU} is missing; {MEMORY} is missing"),
    ({}, {"cpu": "0", "memory": "0"}, None, None),
    ({}, {"cpu": None, "memory": "1"}, None, f"{CPU} is missing"),
    ({"cpu": "500m"}, {"cpu": "0.5", "memory": "1"}, None, None),
    ({"cpu": "500m"}, {"cpu": "501m", "memory": "1"}, None, f"{CPU} is 501m: set it to at most 500m"),
    ({"memory": "1Gi"}, {"cpu": "1", "memory": "1G"}, None, None),
    ({"memory": "1Gi"}, {"cpu": "1", "memory": "1025Mi"}, None, f"{MEMORY} is 1025Mi: set it to at most 1Gi"),
    ({"memory": "1Gi"}, {"cpu": "1"}, None, f"{MEMORY} is missing: set it to at most 1Gi"),
    # If the request is missing, the limit counts.
    ({}, None, {"cpu": "1", "memory": "1"}, None),
    ({}, {"cpu": "1"}, {"memory": "1"}, None),
    ({"memory": "1Gi"}, {"cpu": "1"}, {"memory": "2Gi"}, f"{MEMORY} is 2Gi: set it to at most 1Gi"),
    ({"memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, {"memory": "2Gi"}, None),
    ({"cpu": "-1"}, {"memory": "1"}, None, None),
    ({"cpu": "-1", "memory": "-1"}, None, None, None),
]


@pytest.mark.parametrize(("parameters", "requests", "limits", "problem"), REQUESTS, ids=repr)
def test_requests_are_compared(
    parameters: Json, requests: Json | None, limits: Json | None, problem: str | None
) -> None:
    assert message(container_requests.bind(**parameters), pod_spec(using(limits, requests))) == problem


@pytest.mark.parametrize("value", ["1GB", "", True, [], {}], ids=repr)
def test_an_invalid_request_is_denied(value: Any) -> None:
    problem = message(container_requests, pod_spec(using(None, {"cpu": "1", "memory": value}))) or ""
    assert problem.startswith(f"{MEMORY} is an invalid quantity {value!r}: ")


def test_all_objects() -> None:
    good, bad = using(None, {"cpu": "1", "memory": "1Gi"}), using(None, {"cpu": "1", "memory": "8Gi"})
    check_resources(bounded, good, bad, {}, {"x": "y"})
    check_resizing(bounded, good, bad)


def test_parameters_are_checked() -> None:
    check_parameter(bounded, "cpu", using({"cpu": "1", "memory": "1"}))
    check_parameter(bounded, "memory", using({"cpu": "1", "memory": "1"}))
    for parameters in ({"cpu": 2}, {"memory": None}, {"exempt_images": "nginx"}):
        with pytest.raises(ConfigurationError):
            container_requests.bind(**parameters)
