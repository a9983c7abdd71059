from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from .pods import (
    check_all_kinds,
    check_containers,
    check_exemptions,
    check_shapes,
    container,
    message,
    pod_spec,
    with_context,
)

[proc_mount] = load(["library:proc_mount"])

BAD = with_context(procMount="Unmasked")
CASES: list[tuple[str, Any, bool]] = [
    ("Default", None, True),
    ("Default", "Default", True),
    ("Default", "Unmasked", False),
    ("Default", "default", False),
    ("Default", "", False),
    ("Unmasked", None, True),
    ("Unmasked", "Default", True),
    ("Unmasked", "Unmasked", True),
    ("Unmasked", "unmasked", False),
]


@pytest.mark.parametrize(("allowed", "mount", "good"), CASES)
def test_proc_mounts_are_compared(allowed: str, mount: Any, good: bool) -> None:
    problem = message(proc_mount.bind(proc_mount=allowed), pod_spec(with_context(procMount=mount)))
    assert problem == (None if good else f"container app: securityContext.procMount must be Default, not {mount}")


def test_user_namespaces_make_no_difference() -> None:
    assert message(proc_mount, pod_spec(BAD, hostUsers=False))


def test_all_objects_and_containers() -> None:
    check_all_kinds(proc_mount, pod_spec(), pod_spec(BAD))
    check_containers(proc_mount, container(), BAD)
    check_exemptions(proc_mount, BAD)


def test_malformed_objects_are_denied() -> None:
    check_shapes(proc_mount, pod_spec(BAD), "containers/0/securityContext", {}, {"x": "y"})
    check_shapes(proc_mount, pod_spec(BAD), "containers/0/securityContext/procMount")


@pytest.mark.parametrize("value", ["default", "", None, True], ids=repr)
def test_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        proc_mount.bind(proc_mount=value)
