import pytest

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

[allow_privilege_escalation] = load(["library:allow_privilege_escalation"])

GOOD = with_context(allowPrivilegeEscalation=False)
TOLD = "container app: securityContext.allowPrivilegeEscalation must be false"
CASES: list[tuple[Json, str | None]] = [
    (pod_spec(GOOD), None),
    (pod_spec({**GOOD, "securityContext": {"allowPrivilegeEscalation": False, "runAsUser": 0}}), None),
    (pod_spec(), TOLD),
    (pod_spec(container(securityContext=None)), TOLD),
    (pod_spec(with_context()), TOLD),
    (pod_spec(with_context(allowPrivilegeEscalation=None)), TOLD),
    (pod_spec(with_context(allowPrivilegeEscalation=True)), TOLD),
    (pod_spec(securityContext={"allowPrivilegeEscalation": False}), TOLD),
    (pod_spec(os={"name": "windows"}), None),
    (pod_spec(os={"name": "linux"}), TOLD),
    (pod_spec(os={"name": "Windows"}), TOLD),
]


@pytest.mark.parametrize(("spec", "problem"), CASES, ids=repr)
def test_all_containers_must_set_the_field(spec: Json, problem: str | None) -> None:
    assert message(allow_privilege_escalation, spec) == problem


def test_all_objects_and_containers() -> None:
    check_all_kinds(allow_privilege_escalation, pod_spec(GOOD), pod_spec())
    check_containers(allow_privilege_escalation, GOOD, container())
    check_exemptions(allow_privilege_escalation, container())


def test_malformed_objects_are_denied() -> None:
    check_shapes(allow_privilege_escalation, pod_spec(GOOD), "containers", [])
    check_shapes(allow_privilege_escalation, pod_spec(GOOD), "containers/0/securityContext")
    check_shapes(
        allow_privilege_escalation, pod_spec(GOOD), "containers/0/securityContext/allowPrivilegeEscalation", False
    )
    check_shapes(allow_privilege_escalation, pod_spec(), "os")
    check_shapes(allow_privilege_escalation, pod_spec(os={}), "os/name")
