import pytest

from webhooks.policy.loader import load

from ..support.builders import Json
from .objects import check_everywhere, check_shapes, message, spec_of

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


@pytest.mark.parametrize(("fields", "told"), CASES, ids=repr)
def test_pods_share_nothing_with_their_node(fields: Json, told: str | None) -> None:
    assert message(host_namespaces, spec_of(**fields)) == told


def test_it_holds_for_every_object() -> None:
    check_everywhere(host_namespaces, spec_of(), spec_of(hostPID=True))


def test_an_update_may_not_share_more() -> None:
    old = spec_of(hostPID=True)
    assert message(host_namespaces, spec_of(hostPID=True, hostIPC=True), old=old) == "hostIPC must not be true"


def test_misshapen_objects_are_denied() -> None:
    check_shapes(host_namespaces, spec_of(), "hostPID", False)
    check_shapes(host_namespaces, spec_of(), "hostIPC", False)
