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

[privileged] = load(["library:privileged"])

BAD = secured(privileged=True)
ALLOWED: list[Json] = [
    container(),
    container(securityContext=None),
    secured(),
    secured(privileged=None),
    secured(privileged=False),
    secured(runAsUser=0, capabilities={"add": ["SYS_ADMIN"]}),
]


@pytest.mark.parametrize("each", ALLOWED, ids=repr)
def test_containers_without_privileges_are_allowed(each: Json) -> None:
    assert message(privileged, spec_of(each)) is None


def test_a_privileged_container_is_denied() -> None:
    told = message(
        privileged, spec_of(container("web"), secured("net", privileged=True), secured("x", privileged=True))
    )
    assert told == (
        "container net: securityContext.privileged must not be true; "
        "container x: securityContext.privileged must not be true"
    )


def test_it_holds_for_every_object_and_container() -> None:
    check_everywhere(privileged, spec_of(), spec_of(BAD))
    check_containers(privileged, container(), BAD)
    check_exemptions(privileged, BAD)


def test_misshapen_objects_are_denied() -> None:
    check_shapes(privileged, spec_of(BAD), "containers", [])
    check_shapes(privileged, spec_of(BAD), "containers/0", {}, {"x": "y"})
    check_shapes(privileged, spec_of(BAD), "containers/0/securityContext", {}, {"x": "y"})
    check_shapes(privileged, spec_of(BAD), "containers/0/securityContext/privileged", False)


@pytest.mark.parametrize("images", ["nginx", [5], None], ids=repr)
def test_its_parameters_are_checked(images: Any) -> None:
    with pytest.raises(ConfigurationError):
        privileged.bind(exempt_images=images)
