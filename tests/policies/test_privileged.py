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

[privileged] = load(["library:privileged"])

BAD = with_context(privileged=True)
ALLOWED: list[Json] = [
    container(),
    container(securityContext=None),
    with_context(),
    with_context(privileged=None),
    with_context(privileged=False),
    with_context(runAsUser=0, capabilities={"add": ["SYS_ADMIN"]}),
]


@pytest.mark.parametrize("container", ALLOWED, ids=repr)
def test_containers_without_privileges_are_allowed(container: Json) -> None:
    assert message(privileged, pod_spec(container)) is None


def test_a_privileged_container_is_denied() -> None:
    problem = message(
        privileged, pod_spec(container("web"), with_context("net", privileged=True), with_context("x", privileged=True))
    )
    assert problem == (
        "container net: securityContext.privileged must not be true; "
        "container x: securityContext.privileged must not be true"
    )


def test_all_objects_and_containers() -> None:
    check_all_kinds(privileged, pod_spec(), pod_spec(BAD))
    check_containers(privileged, container(), BAD)
    check_exemptions(privileged, BAD)


def test_malformed_objects_are_denied() -> None:
    check_shapes(privileged, pod_spec(BAD), "containers", [])
    check_shapes(privileged, pod_spec(BAD), "containers/0", {}, {"x": "y"})
    check_shapes(privileged, pod_spec(BAD), "containers/0/securityContext", {}, {"x": "y"})
    check_shapes(privileged, pod_spec(BAD), "containers/0/securityContext/privileged", False)


@pytest.mark.parametrize("images", ["nginx", [5], None], ids=repr)
def test_parameters_are_checked(images: Any) -> None:
    with pytest.raises(ConfigurationError):
        privileged.bind(exempt_images=images)
