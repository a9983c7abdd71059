from typing import Any

import pytest

from webhooks import Deny
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import (
    check_all_kinds,
    check_containers,
    check_exemptions,
    check_shapes,
    container,
    decide_on_pod,
    message,
    pod_spec,
    with_context,
)

[capabilities] = load(["library:capabilities"])

WHERE = "container app: securityContext.capabilities"
# The allowed and the required capabilities, those of a container, and the violations.
CASES: list[tuple[list[str], list[str], Json | None, list[str]]] = [
    ([], [], None, []),
    ([], [], {}, []),
    ([], [], {"add": None, "drop": None}, []),
    ([], [], {"add": [], "drop": ["ALL"]}, []),
    ([], [], {"add": ["CHOWN"]}, ["add must be empty, not CHOWN"]),
    ([], [], {"add": ["ALL"]}, ["add must be empty, not ALL"]),
    (["CHOWN"], [], {"add": ["CHOWN"]}, []),
    (["chown"], [], {"add": ["CHOWN"]}, []),
    (["CHOWN"], [], {"add": ["chown"]}, []),
    (["CHOWN"], [], {"add": ["sys_admin"]}, ["add must have only CHOWN, not SYS_ADMIN"]),
    (["CHOWN"], [], {"add": ["CAP_CHOWN"]}, ["add must have only CHOWN, not CAP_CHOWN"]),
    (["CHOWN", "KILL"], [], {"add": ["ALL"]}, ["add must have only CHOWN, KILL, not ALL"]),
    (
        ["CHOWN"],
        [],
        {"add": ["KILL", "CHOWN", "MKNOD"]},
        ["add must have only CHOWN, not KILL", "add must have only CHOWN, not MKNOD"],
    ),
    (["*"], [], {"add": ["ALL", "SYS_ADMIN"]}, []),
    (["CHO*"], [], {"add": ["CHOWN"]}, ["add must have only CHO*, not CHOWN"]),
    (["ALL"], [], {"add": ["ALL"]}, []),
    (["ALL"], [], {"add": ["CHOWN"]}, ["add must have only ALL, not CHOWN"]),
    ([], ["ALL"], None, ["drop must have ALL"]),
    ([], ["ALL"], {"drop": []}, ["drop must have ALL"]),
    ([], ["ALL"], {"drop": ["ALL"]}, []),
    ([], ["all"], {"drop": ["All"]}, []),
    ([], ["ALL"], {"drop": ["KILL", "NET_RAW"]}, ["drop must have ALL"]),
    (["KILL"], ["ALL"], {"drop": ["ALL"], "add": ["KILL"]}, []),
    ([], ["KILL", "NET_RAW"], {"drop": ["KILL"]}, ["drop must have NET_RAW"]),
    ([], ["KILL", "NET_RAW"], {"drop": ["net_raw", "kill"]}, []),
    ([], ["KILL", "NET_RAW"], {"drop": ["ALL"]}, []),
    (["*"], ["NET_RAW"], {"drop": ["ALL"], "add": ["NET_RAW"]}, ["drop must have NET_RAW"]),
    (["*"], ["NET_RAW"], {"drop": ["ALL", "NET_RAW"], "add": ["NET_RAW"]}, []),
    (["*"], ["NET_RAW"], {"drop": ["ALL"], "add": ["KILL"]}, []),
    ([], ["ALL"], {"add": ["KILL"]}, ["add must be empty, not KILL", "drop must have ALL"]),
]


@pytest.mark.parametrize(("allowed", "required", "container_value", "problems"), CASES, ids=repr)
def test_capabilities_are_compared(
    allowed: list[str], required: list[str], container_value: Json | None, problems: list[str]
) -> None:
    policy = capabilities.bind(allowed_capabilities=allowed, required_drop_capabilities=required)
    assert message(policy, pod_spec(with_context(capabilities=container_value))) == (
        "; ".join(f"{WHERE}.{problem}" for problem in problems) or None
    )


def test_pods_for_windows_are_exempt() -> None:
    policy = capabilities.bind(required_drop_capabilities=["ALL"])
    assert message(policy, pod_spec(os={"name": "windows"})) is None
    assert message(policy, pod_spec(os={"name": "linux"}))
    assert message(policy, pod_spec(with_context(capabilities={"add": ["KILL"]}), os={"name": "windows"}))


def test_all_objects_and_containers() -> None:
    adding = with_context(capabilities={"add": ["SYS_ADMIN"]})
    check_all_kinds(capabilities, pod_spec(), pod_spec(adding))
    check_containers(capabilities, container(), adding)
    check_exemptions(capabilities, adding)
    required = capabilities.bind(required_drop_capabilities=["ALL"])
    dropping = with_context(capabilities={"drop": ["ALL"]})
    check_all_kinds(required, pod_spec(dropping), pod_spec())
    check_containers(required, dropping, container())
    check_exemptions(required, container())


def test_an_update_must_not_add_more() -> None:
    old, new = (pod_spec(with_context(capabilities={"add": names})) for names in (["KILL"], ["KILL", "CHOWN"]))
    assert message(capabilities, new, "Deployment", old=old) == f"{WHERE}.add must be empty, not CHOWN"


def test_malformed_objects_are_denied() -> None:
    policy = capabilities.bind(allowed_capabilities=["X"], required_drop_capabilities=["ALL"])
    spec = pod_spec(with_context(capabilities={"add": ["X"], "drop": ["ALL"]}))
    for path in ("", "/capabilities", "/capabilities/drop", "/capabilities/drop/0"):
        check_shapes(policy, spec, f"containers/0/securityContext{path}")
    check_shapes(policy, spec, "containers/0/securityContext/capabilities/add", [], ["x"])
    check_shapes(policy, spec, "containers/0/securityContext/capabilities/add/0", "x")


def test_a_string_is_not_a_list() -> None:
    policy = capabilities.bind(required_drop_capabilities=["ALL"])
    assert isinstance(decide_on_pod(policy, pod_spec(with_context(capabilities={"drop": "ALL"}))), Deny)


@pytest.mark.parametrize("name", ["allowed_capabilities", "required_drop_capabilities", "exempt_images"])
@pytest.mark.parametrize("value", ["ALL", [5], None], ids=repr)
def test_parameters_are_checked(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        capabilities.bind(**{name: value})
