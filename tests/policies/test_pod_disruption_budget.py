from typing import Any

import pytest

from webhooks.policy.loader import load

from ..support.builders import Json
from .other_objects import check_requests, check_shapes, message

[pod_disruption_budget] = load(["library:pod_disruption_budget"])


def budget(**spec: Any) -> Json:
    spec = {**spec, "selector": {"matchLabels": {"app": "web"}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"maxUnavailable": None, "minAvailable": None},
        {"maxUnavailable": 1},
        {"maxUnavailable": "1%"},
        {"maxUnavailable": "100%"},
        {"minAvailable": 0},
        {"minAvailable": 1},
        {"minAvailable": 100},
        {"minAvailable": "0%"},
        {"minAvailable": "99%"},
    ],
    ids=repr,
)
def test_budgets_that_allow_disruptions(spec: Json) -> None:
    assert message(pod_disruption_budget, budget(**spec)) is None


@pytest.mark.parametrize("value", [0, "0%", "00%", -1], ids=repr)
def test_max_unavailable_of_0_is_denied(value: Any) -> None:
    problem = f"spec.maxUnavailable must be at least 1, not {value}"
    assert message(pod_disruption_budget, budget(maxUnavailable=value)) == problem


@pytest.mark.parametrize("value", ["100%", "0100%", "101%"], ids=repr)
def test_min_available_of_100_percent_is_denied(value: Any) -> None:
    problem = f"spec.minAvailable must be less than 100%, not {value}"
    assert message(pod_disruption_budget, budget(minAvailable=value)) == problem


@pytest.mark.parametrize("name", ["maxUnavailable", "minAvailable"])
@pytest.mark.parametrize("value", ["0", "1", "%", "-1%", "1.5%", "100 %", "100%\n", "", 0.5, True, [], {}], ids=repr)
def test_invalid_values_are_denied(name: str, value: Any) -> None:
    problem = f"spec.{name} must be an integer or a percentage"
    assert message(pod_disruption_budget, budget(**{name: value})) == problem


def test_requests() -> None:
    check_requests(pod_disruption_budget, budget(maxUnavailable=1), budget(maxUnavailable=0))
    check_requests(pod_disruption_budget, budget(minAvailable=1), budget(minAvailable="100%"))
    assert message(pod_disruption_budget, {**budget(), "spec": None}) is None
    check_shapes(pod_disruption_budget, budget(maxUnavailable=1), "spec", allowed=({}, {"x": "y"}))
    check_shapes(pod_disruption_budget, budget(), "spec", "maxUnavailable", allowed=(7,))
    check_shapes(pod_disruption_budget, budget(), "spec", "minAvailable", allowed=(0, 7))
