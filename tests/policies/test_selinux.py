from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
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

[selinux] = load(["library:selinux"])

A = {"level": "s0:c1,c2", "role": "object_r", "type": "svirt_t", "user": "system_u"}
B = {"type": "container_t"}
# What is allowed, what is options, and whether it may be.
CASES: list[tuple[list[Json], Any, bool]] = [
    ([], None, True),
    ([], {}, True),
    ([], {"level": "", "role": "", "type": "", "user": ""}, True),
    ([], {"level": "s0"}, False),
    ([A], A, True),
    ([A], {"level": A["level"]}, True),
    ([A], {"type": A["type"], "user": A["user"]}, True),
    ([A], {**A, "user": "root"}, False),
    ([A], {**A, "level": "s0"}, False),
    ([A], {"type": "SVIRT_T"}, False),
    ([A], B, False),
    ([A, B], B, True),
    ([A, B], {**B, "level": A["level"]}, False),
    ([B], {**B, "level": "s0"}, False),
    ([{}], {"level": "s0"}, False),
    ([{"type": "*"}], B, False),
]


@pytest.mark.parametrize(("allowed", "options", "good"), CASES, ids=repr)
def test_options_are_compared(allowed: list[Json], options: Any, good: bool) -> None:
    policy = selinux.bind(allowed_selinux_options=allowed)
    for spec in (spec_of(secured(seLinuxOptions=options)), spec_of(securityContext={"seLinuxOptions": options})):
        assert (message(policy, spec) is None) is good


def test_messages() -> None:
    spec = spec_of(secured(seLinuxOptions={"user": "root", "level": "s0"}), securityContext={"seLinuxOptions": A})
    assert message(selinux.bind(allowed_selinux_options=[A, B]), spec) == (
        "container app: securityContext.seLinuxOptions must be (level: s0:c1,c2, role: object_r, type: svirt_t, "
        "user: system_u) or (type: container_t), not (level: s0, user: root)"
    )
    problem = message(selinux, spec_of(securityContext={"seLinuxOptions": B}))
    assert problem == "pod: securityContext.seLinuxOptions must be absent, not (type: container_t)"


def test_images_make_no_exception_for_what_a_pod_says() -> None:
    policy = selinux.bind(exempt_images=["*"])
    assert message(policy, spec_of(secured(seLinuxOptions=B))) is None
    assert message(policy, spec_of(secured(seLinuxOptions=B), securityContext={"seLinuxOptions": B}))


def test_it_holds_for_every_object_and_container() -> None:
    bad = secured(seLinuxOptions=B)
    check_everywhere(selinux, spec_of(), spec_of(bad))
    check_everywhere(selinux, spec_of(), spec_of(securityContext={"seLinuxOptions": B}))
    check_containers(selinux, container(), bad)
    check_exemptions(selinux, bad)


def test_an_update_may_not_bring_another_label() -> None:
    old, new = (spec_of(securityContext={"seLinuxOptions": {"type": each}}) for each in ("a_t", "spc_t"))
    assert message(selinux, new, "Deployment", old=old)


def test_misshapen_objects_are_denied() -> None:
    for spec, path in (
        (spec_of(secured(seLinuxOptions=B)), "containers/0/securityContext"),
        (spec_of(securityContext={"seLinuxOptions": B}), "securityContext"),
    ):
        check_shapes(selinux, spec, path, {}, {"x": "y"})
        check_shapes(selinux, spec, f"{path}/seLinuxOptions", {}, {"x": "y"})
        check_shapes(selinux, spec, f"{path}/seLinuxOptions/type", "")


@pytest.mark.parametrize("value", ["spc_t", ["spc_t"], [{"type": 5}], None], ids=repr)
def test_its_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        selinux.bind(allowed_selinux_options=value)
