from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
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

[selinux] = load(["library:selinux"])

A = {"level": "s0:c1,c2", "role": "object_r", "type": "svirt_t", "user": "system_u"}
B = {"type": "container_t"}
# The allowed options, those of a pod or container, and whether they are allowed.
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
    for spec in (pod_spec(with_context(seLinuxOptions=options)), pod_spec(securityContext={"seLinuxOptions": options})):
        assert (message(policy, spec) is None) is good


def test_messages() -> None:
    spec = pod_spec(with_context(seLinuxOptions={"user": "root", "level": "s0"}), securityContext={"seLinuxOptions": A})
    assert message(selinux.bind(allowed_selinux_options=[A, B]), spec) == (
        "container app: securityContext.seLinuxOptions must be (level: s0:c1,c2, role: object_r, type: svirt_t, "
        "user: system_u) or (type: container_t), not (level: s0, user: root)"
    )
    problem = message(selinux, pod_spec(securityContext={"seLinuxOptions": B}))
    assert problem == "pod: securityContext.seLinuxOptions must be absent, not (type: container_t)"


def test_options_of_the_pod_are_never_exempt() -> None:
    policy = selinux.bind(exempt_images=["*"])
    assert message(policy, pod_spec(with_context(seLinuxOptions=B))) is None
    assert message(policy, pod_spec(with_context(seLinuxOptions=B), securityContext={"seLinuxOptions": B}))


def test_all_objects_and_containers() -> None:
    bad = with_context(seLinuxOptions=B)
    check_all_kinds(selinux, pod_spec(), pod_spec(bad))
    check_all_kinds(selinux, pod_spec(), pod_spec(securityContext={"seLinuxOptions": B}))
    check_containers(selinux, container(), bad)
    check_exemptions(selinux, bad)


def test_an_update_must_not_add_another_label() -> None:
    old, new = (pod_spec(securityContext={"seLinuxOptions": {"type": type_}}) for type_ in ("a_t", "spc_t"))
    assert message(selinux, new, "Deployment", old=old)


def test_malformed_objects_are_denied() -> None:
    for spec, path in (
        (pod_spec(with_context(seLinuxOptions=B)), "containers/0/securityContext"),
        (pod_spec(securityContext={"seLinuxOptions": B}), "securityContext"),
    ):
        check_shapes(selinux, spec, path, {}, {"x": "y"})
        check_shapes(selinux, spec, f"{path}/seLinuxOptions", {}, {"x": "y"})
        check_shapes(selinux, spec, f"{path}/seLinuxOptions/type", "")


@pytest.mark.parametrize("value", ["spc_t", ["spc_t"], [{"type": 5}], None], ids=repr)
def test_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        selinux.bind(allowed_selinux_options=value)
