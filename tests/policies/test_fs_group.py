from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import check_all_kinds, check_shapes, message, pod_spec

[fs_group] = load(["library:fs_group"])

TWO = [{"min": 10, "max": 19}, {"min": 30, "max": 30}]
ABSENT: Any = None
CASES: list[tuple[Json, Any, str | None]] = [
    ({}, ABSENT, None),
    ({}, 1, None),
    ({}, 2**31 - 1, None),
    ({}, 0, "in 1-2147483647, not 0"),
    ({}, -1, "in 1-2147483647, not -1"),
    ({"rule": "RunAsAny"}, 0, None),
    ({"rule": "RunAsAny", "ranges": []}, ABSENT, None),
    ({"rule": "MayRunAs", "ranges": TWO}, ABSENT, None),
    ({"rule": "MayRunAs", "ranges": TWO}, 10, None),
    ({"rule": "MayRunAs", "ranges": TWO}, 30, None),
    ({"rule": "MayRunAs", "ranges": TWO}, 20, "in 10-19 or 30-30, not 20"),
    ({"rule": "MayRunAs", "ranges": []}, ABSENT, None),
    ({"rule": "MayRunAs", "ranges": []}, 5, "in an allowed range, not 5"),
    ({"rule": "MustRunAs", "ranges": TWO}, 19, None),
    ({"rule": "MustRunAs", "ranges": TWO}, 0, "in 10-19 or 30-30, not 0"),
    ({"rule": "MustRunAs", "ranges": TWO}, ABSENT, "in 10-19 or 30-30, not absent"),
    ({"rule": "MustRunAs", "ranges": [{"min": 0, "max": 0}]}, 0, None),
    ({"rule": "MustRunAs", "ranges": [{"min": 0, "max": 0}]}, ABSENT, "in 0-0, not absent"),
    ({"rule": "MustRunAs", "ranges": []}, 1, "in an allowed range, not 1"),
]


def of_group(group: Any, **spec: Any) -> Json:
    return pod_spec(securityContext={"fsGroup": group}, **spec)


@pytest.mark.parametrize(("parameters", "group", "problem"), CASES, ids=repr)
def test_groups_are_compared(parameters: Json, group: Any, problem: str | None) -> None:
    problem = problem and f"securityContext.fsGroup must be {problem}"
    assert message(fs_group.bind(**parameters), of_group(group)) == problem


@pytest.mark.parametrize("spec", [{}, {"securityContext": None}, {"securityContext": {}}], ids=repr)
def test_a_group_may_be_required(spec: Json) -> None:
    assert message(fs_group, pod_spec(**spec)) is None
    assert message(fs_group.bind(rule="MustRunAs"), pod_spec(**spec))
    assert message(fs_group.bind(rule="MustRunAs"), pod_spec(**spec, os={"name": "windows"})) is None


def test_all_objects() -> None:
    check_all_kinds(fs_group, pod_spec(), of_group(0))
    check_all_kinds(fs_group.bind(rule="MustRunAs"), of_group(5), pod_spec())


def test_an_update_must_not_add_another_group() -> None:
    policy = fs_group.bind(ranges=TWO)
    assert message(policy, of_group(6), "Deployment", old=of_group(5))


def test_malformed_objects_are_denied() -> None:
    policy = fs_group.bind(rule="MustRunAs", ranges=TWO)
    check_shapes(policy, of_group(10), "securityContext")
    check_shapes(policy, of_group(10), "securityContext/fsGroup")


@pytest.mark.parametrize(
    "parameters",
    [
        {"rule": "mustRunAs"},
        {"rule": None},
        {"ranges": [{"min": 1}]},
        {"ranges": [{"min": "1", "max": 2}]},
        {"ranges": 5},
    ],
    ids=repr,
)
def test_parameters_are_checked(parameters: Json) -> None:
    with pytest.raises(ConfigurationError):
        fs_group.bind(**parameters)
