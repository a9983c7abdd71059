from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from .objects import (
    check_containers,
    check_everywhere,
    check_exemptions,
    check_shapes,
    container,
    message,
    secured,
    spec_of,
)

[proc_mount] = load(["library:proc_mount"])

BAD = secured(procMount="Unmasked")
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
def test_proc_stays_masked(allowed: str, mount: Any, good: bool) -> None:
    told = message(proc_mount.bind(proc_mount=allowed), spec_of(secured(procMount=mount)))
    assert told == (None if good else f"container app: securityContext.procMount must be Default, not {mount}")


def test_users_of_its_own_make_no_difference() -> None:
    assert message(proc_mount, spec_of(BAD, hostUsers=False))


def test_it_holds_for_every_object_and_container() -> None:
    check_everywhere(proc_mount, spec_of(), spec_of(BAD))
    check_containers(proc_mount, container(), BAD)
    check_exemptions(proc_mount, BAD)


def test_misshapen_objects_are_denied() -> None:
    check_shapes(proc_mount, spec_of(BAD), "containers/0/securityContext", {}, {"x": "y"})
    check_shapes(proc_mount, spec_of(BAD), "containers/0/securityContext/procMount")


@pytest.mark.parametrize("value", ["default", "", None, True], ids=repr)
def test_its_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        proc_mount.bind(proc_mount=value)
