"""Label selectors: parsing and matching, as in API servers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.errors import ConfigurationError
from webhooks.kube.label_selectors import Selector

from ..support.builders import Json

LABELS = {"app": "web", "tier": "", "env": "prod"}


def expression(key: str, operator: str, *values: str) -> Json:
    requirement: Json = {"key": key, "operator": operator}
    return {**requirement, "values": list(values)} if values else requirement


SELECTORS: list[tuple[Any, bool]] = [
    (None, True),
    ({}, True),
    ({"matchLabels": {}}, True),
    ({"matchExpressions": []}, True),
    ({"app": "web"}, True),
    ({"app": "api"}, False),
    ({"other": "web"}, False),
    ({"tier": ""}, True),
    ({"other": ""}, False),
    ({"app": "web", "env": "prod"}, True),
    ({"app": "web", "env": "test"}, False),
    ({"matchLabels": {"app": "web"}}, True),
    ({"matchLabels": {"app": "web", "env": "test"}}, False),
    ({"matchExpressions": [expression("app", "In", "api", "web")]}, True),
    ({"matchExpressions": [expression("app", "In", "api")]}, False),
    ({"matchExpressions": [expression("other", "In", "", "web")]}, False),
    ({"matchExpressions": [expression("app", "NotIn", "api")]}, True),
    ({"matchExpressions": [expression("app", "NotIn", "api", "web")]}, False),
    ({"matchExpressions": [expression("other", "NotIn", "web", "")]}, True),
    ({"matchExpressions": [expression("tier", "Exists")]}, True),
    ({"matchExpressions": [expression("other", "Exists")]}, False),
    ({"matchExpressions": [expression("tier", "DoesNotExist")]}, False),
    ({"matchExpressions": [expression("other", "DoesNotExist")]}, True),
    ({"matchExpressions": [{"key": "tier", "operator": "Exists", "values": []}]}, True),
    ({"matchExpressions": [expression("app", "Exists"), expression("env", "NotIn", "prod")]}, False),
    ({"matchLabels": {"app": "web"}, "matchExpressions": [expression("env", "In", "prod")]}, True),
    ({"matchLabels": {"app": "api"}, "matchExpressions": [expression("env", "In", "prod")]}, False),
]


@pytest.mark.parametrize(("selector", "matches"), SELECTORS, ids=lambda value: repr(value)[:60])
def test_selectors_match_as_in_api_servers(selector: Any, matches: bool) -> None:
    assert Selector.parse(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    "selector",
    [
        "app",
        ["app"],
        5,
        {"version": 2},
        {"app": None},
        {"app": ["web"]},
        {5: "web"},
        {"matchLabels": "app"},
        {"matchLabels": ["app"]},
        {"matchLabels": {"version": 2}},
        {"matchExpressions": {"key": "app", "operator": "Exists"}},
        {"matchExpressions": "app"},
        {"matchExpressions": 5},
        {"matchExpressions": [5]},
        {"matchExpressions": [{}]},
        {"matchExpressions": [{"key": "app"}]},
        {"matchExpressions": [{"operator": "Exists"}]},
        {"matchExpressions": [expression("app", "Equals", "web")]},
        {"matchExpressions": [expression("app", "in", "web")]},
        {"matchExpressions": [{"key": "app", "operator": ["In"], "values": ["web"]}]},
        {"matchExpressions": [expression("app", "In")]},
        {"matchExpressions": [expression("app", "NotIn")]},
        {"matchExpressions": [expression("app", "Exists", "web")]},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": "web"}]},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": 5}]},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": [5]}]},
        {"matchExpressions": [{"key": 5, "operator": "Exists"}]},
    ],
    ids=repr,
)
def test_invalid_selectors_are_rejected(selector: Any) -> None:
    with pytest.raises(ConfigurationError):
        Selector.parse(selector)


KEYS = st.sampled_from(["app", "tier", "env", "other"])
VALUES = st.sampled_from(["web", "", "prod"])


@given(st.dictionaries(KEYS, VALUES), KEYS, st.lists(VALUES, min_size=1))
def test_an_expression_and_its_opposite_never_agree(labels: dict[str, str], key: str, values: list[str]) -> None:
    for one, other, arguments in (("In", "NotIn", values), ("Exists", "DoesNotExist", [])):
        first, second = (
            Selector.parse({"matchExpressions": [expression(key, operator, *arguments)]}).matches(labels)
            for operator in (one, other)
        )
        assert first is not second
