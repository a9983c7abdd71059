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

[read_only_root_filesystem] = load(["library:read_only_root_filesystem"])

GOOD = with_context(readOnlyRootFilesystem=True)
TOLD = "container app: securityContext.readOnlyRootFilesystem must be true"
CASES: list[tuple[Json, str | None]] = [
    (pod_spec(GOOD), None),
    (pod_spec(), TOLD),
    (pod_spec(container(securityContext=None)), TOLD),
    (pod_spec(with_context()), TOLD),
    (pod_spec(with_context(readOnlyRootFilesystem=None)), TOLD),
    (pod_spec(with_context(readOnlyRootFilesystem=False)), TOLD),
    (pod_spec(securityContext={"readOnlyRootFilesystem": True}), TOLD),
    (pod_spec(os={"name": "windows"}), None),
    (pod_spec(os={"name": "linux"}), TOLD),
]


@pytest.mark.parametrize(("spec", "problem"), CASES, ids=repr)
def test_all_containers_must_set_the_field(spec: Json, problem: str | None) -> None:
    assert message(read_only_root_filesystem, spec) == problem


def test_all_objects_and_containers() -> None:
    check_all_kinds(read_only_root_filesystem, pod_spec(GOOD), pod_spec())
    check_containers(read_only_root_filesystem, GOOD, container())
    check_exemptions(read_only_root_filesystem, container())


def test_malformed_objects_are_denied() -> None:
    check_shapes(read_only_root_filesystem, pod_spec(GOOD), "containers", [])
    check_shapes(read_only_root_filesystem, pod_spec(GOOD), "containers/0/securityContext")
    check_shapes(read_only_root_filesystem, pod_spec(GOOD), "containers/0/securityContext/readOnlyRootFilesystem", True)
