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

[read_only_root_filesystem] = load(["library:read_only_root_filesystem"])

GOOD = secured(readOnlyRootFilesystem=True)
TOLD = "container app: securityContext.readOnlyRootFilesystem must be true"
CASES: list[tuple[Json, str | None]] = [
    (spec_of(GOOD), None),
    (spec_of(), TOLD),
    (spec_of(container(securityContext=None)), TOLD),
    (spec_of(secured()), TOLD),
    (spec_of(secured(readOnlyRootFilesystem=None)), TOLD),
    (spec_of(secured(readOnlyRootFilesystem=False)), TOLD),
    (spec_of(securityContext={"readOnlyRootFilesystem": True}), TOLD),
    (spec_of(os={"name": "windows"}), None),
    (spec_of(os={"name": "linux"}), TOLD),
]


@pytest.mark.parametrize(("spec", "told"), CASES, ids=repr)
def test_every_container_says_it(spec: Json, told: str | None) -> None:
    assert message(read_only_root_filesystem, spec) == told


def test_it_holds_for_every_object_and_container() -> None:
    check_everywhere(read_only_root_filesystem, spec_of(GOOD), spec_of())
    check_containers(read_only_root_filesystem, GOOD, container())
    check_exemptions(read_only_root_filesystem, container())


def test_misshapen_objects_are_denied() -> None:
    check_shapes(read_only_root_filesystem, spec_of(GOOD), "containers", [])
    check_shapes(read_only_root_filesystem, spec_of(GOOD), "containers/0/securityContext")
    check_shapes(read_only_root_filesystem, spec_of(GOOD), "containers/0/securityContext/readOnlyRootFilesystem", True)
