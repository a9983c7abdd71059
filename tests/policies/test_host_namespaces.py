import pytest

from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import check_all_kinds, check_shapes, message, pod_spec

[host_namespaces] = load(["library:host_namespaces"])

CASES: list[tuple[Json, str | None]] = [
    ({}, None),
    ({"hostPID": None, "hostIPC": None}, None),
    ({"hostPID": False, "hostIPC": False}, None),
    ({"hostNetwork": True, "shareProcessNamespace": True, "hostUsers": True}, None),
    ({"hostPID": True}, "hostPID must not be true"),
    ({"hostIPC": True}, "hostIPC must not be true"),
    ({"hostIPC": True, "hostPID": True}, "hostPID must not be true; hostIPC must not be true"),
]


@pytest.mark.parametrize(("fields", "problem"), CASES, ids=repr)
def test_namespaces_of_the_node(fields: Json, problem: str | None) -> None:
    assert message(host_namespaces, pod_spec(**fields)) == problem


def test_all_objects() -> None:
    check_all_kinds(host_namespaces, pod_spec(), pod_spec(hostPID=True))


def test_an_update_must_not_share_more() -> None:
    old = pod_spec(hostPID=True)
    assert message(host_namespaces, pod_spec(hostPID=True, hostIPC=True), old=old) == "hostIPC must not be true"


def test_malformed_objects_are_denied() -> None:
    check_shapes(host_namespaces, pod_spec(), "hostPID", False)
    check_shapes(host_namespaces, pod_spec(), "hostIPC", False)
