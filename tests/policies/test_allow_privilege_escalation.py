import pytest

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

[allow_privilege_escalation] = load(["library:allow_privilege_escalation"])

GOOD = secured(allowPrivilegeEscalation=False)
TOLD = "container app: securityContext.allowPrivilegeEscalation must be false"
CASES: list[tuple[Json, str | None]] = [
    (spec_of(GOOD), None),
    (spec_of({**GOOD, "securityContext": {"allowPrivilegeEscalation": False, "runAsUser": 0}}), None),
    (spec_of(), TOLD),
    (spec_of(container(securityContext=None)), TOLD),
    (spec_of(secured()), TOLD),
    (spec_of(secured(allowPrivilegeEscalation=None)), TOLD),
    (spec_of(secured(allowPrivilegeEscalation=True)), TOLD),
    (spec_of(securityContext={"allowPrivilegeEscalation": False}), TOLD),
    (spec_of(os={"name": "windows"}), None),
    (spec_of(os={"name": "linux"}), TOLD),
    (spec_of(os={"name": "Windows"}), TOLD),
]


@pytest.mark.parametrize(("spec", "told"), CASES, ids=repr)
def test_every_container_rules_it_out(spec: Json, told: str | None) -> None:
    assert message(allow_privilege_escalation, spec) == told


def test_it_holds_for_every_object_and_container() -> None:
    check_everywhere(allow_privilege_escalation, spec_of(GOOD), spec_of())
    check_containers(allow_privilege_escalation, GOOD, container())
    check_exemptions(allow_privilege_escalation, container())


def test_misshapen_objects_are_denied() -> None:
    check_shapes(allow_privilege_escalation, spec_of(GOOD), "containers", [])
    check_shapes(allow_privilege_escalation, spec_of(GOOD), "containers/0/securityContext")
    check_shapes(
        allow_privilege_escalation, spec_of(GOOD), "containers/0/securityContext/allowPrivilegeEscalation", False
    )
    check_shapes(allow_privilege_escalation, spec_of(), "os")
    check_shapes(allow_privilege_escalation, spec_of(os={}), "os/name")
