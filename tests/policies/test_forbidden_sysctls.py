from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import check_all_kinds, check_shapes, message, pod_spec

[forbidden_sysctls] = load(["library:forbidden_sysctls"])

# The forbidden and the allowed patterns, names that may be set, and names that must not.
SYSCTLS = "securityContext.sysctls"
NAMES: list[tuple[list[str], list[str] | None, list[str], list[str]]] = [
    ([], None, [], ["kernel.msgmax", "net.ipv4.tcp_syncookies", ""]),
    ([], [], [], ["kernel.msgmax"]),
    ([], ["*"], ["kernel.msgmax", "net/ipv4/x"], []),
    (["*"], ["*"], [], ["kernel.msgmax"]),
    (["*"], None, [], ["kernel.msgmax"]),
    (["kernel.msgmax"], None, ["kernel.msgmnb", "kernel.msgmax2", "kernel.sem"], ["kernel.msgmax", "kernel/msgmax"]),
    (["kernel.*"], None, ["net.ipv4.x", "kernelx", "kernel"], ["kernel.msgmax", "kernel/msgmax", "kernel/a/b"]),
    (["kernel.*"], ["kernel.sem", "net.*"], ["net.core.x", "net/core/x"], ["kernel.sem", "vm.swappiness"]),
    (["kernel.*"], [], [], ["net.core.x", "kernel.sem"]),
    ([], ["net.ipv4.tcp_*"], ["net.ipv4.tcp_rmem", "net/ipv4/tcp_rmem"], ["net.ipv4.ip_forward", "net.ipv4.tcp"]),
    (["kernel/msgmax"], None, ["kernel.sem"], ["kernel.msgmax", "kernel/msgmax"]),
    (
        ["net.ipv4.conf.eno2/100.rp_filter"],
        None,
        ["net.ipv4.conf.eno2.100.rp_filter"],
        ["net.ipv4.conf.eno2/100.rp_filter", "net/ipv4/conf/eno2.100/rp_filter"],
    ),
    (["kernel.msg"], None, ["kernel.msgmax", "KERNEL.MSG"], ["kernel.msg"]),
]


def setting(*names: Any) -> Json:
    return pod_spec(securityContext={"sysctls": [{"name": name, "value": "1"} for name in names]})


@pytest.mark.parametrize(("forbidden", "allowed", "good", "bad"), NAMES, ids=repr)
def test_names_are_compared(forbidden: list[str], allowed: list[str] | None, good: list[str], bad: list[str]) -> None:
    policy = forbidden_sysctls.bind(forbidden_sysctls=forbidden, allowed_sysctls=allowed)
    for name in good:
        assert message(policy, setting(name)) is None, name
    for name in bad:
        assert (message(policy, setting(name)) or "").endswith((f"must not have {name}", f"not {name}")), name


def test_messages() -> None:
    policy = forbidden_sysctls.bind(forbidden_sysctls=["vm.*"], allowed_sysctls=["net.*", "fs.*"])
    problem = f"{SYSCTLS} must not have vm.x; {SYSCTLS} must have only net.*, fs.*, not kernel.y"
    assert message(policy, setting("vm.x", "net.a", "kernel.y")) == problem
    assert message(forbidden_sysctls, setting("a")) == f"{SYSCTLS} must be empty, not a"


@pytest.mark.parametrize("context", [None, {}, {"sysctls": None}, {"sysctls": []}], ids=repr)
def test_pods_without_sysctls_are_allowed(context: Any) -> None:
    assert message(forbidden_sysctls, pod_spec(securityContext=context)) is None


def test_a_missing_name_is_denied() -> None:
    spec = pod_spec(securityContext={"sysctls": [{"value": "1"}]})
    assert message(forbidden_sysctls, spec) == f"{SYSCTLS} must be empty, not "


def test_all_objects() -> None:
    check_all_kinds(forbidden_sysctls, pod_spec(), setting("kernel.sem"))


def test_an_update_must_not_set_another() -> None:
    problem = message(forbidden_sysctls, setting("a", "b"), "Deployment", old=setting("a"))
    assert problem == f"{SYSCTLS} must be empty, not b"


def test_malformed_objects_are_denied() -> None:
    policy = forbidden_sysctls.bind(forbidden_sysctls=["y"])
    check_shapes(policy, setting("y"), "securityContext", {}, {"x": "y"})
    check_shapes(policy, setting("y"), "securityContext/sysctls", [])
    check_shapes(policy, setting("y"), "securityContext/sysctls/0", {}, {"x": "y"})
    check_shapes(policy, setting("y"), "securityContext/sysctls/0/name", "", "x")


@pytest.mark.parametrize("name", ["forbidden_sysctls", "allowed_sysctls"])
@pytest.mark.parametrize("value", ["*", [5], {"a": 1}], ids=repr)
def test_parameters_are_checked(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        forbidden_sysctls.bind(**{name: value})
