from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import check_all_kinds, check_containers, check_exemptions, check_shapes, container, message, pod_spec

[disallow_interactive] = load(["library:disallow_interactive"])

STDIN, TTY = "container app: stdin must be false", "container app: tty must be false"
CASES: list[tuple[Json, str | None]] = [
    ({}, None),
    ({"stdin": False, "tty": False}, None),
    ({"stdin": None, "tty": None}, None),
    ({"stdinOnce": True}, None),
    ({"stdin": True}, STDIN),
    ({"tty": True}, TTY),
    ({"stdin": True, "tty": False}, STDIN),
    ({"stdin": True, "tty": True}, f"{STDIN}; {TTY}"),
]


@pytest.mark.parametrize(("fields", "problem"), CASES, ids=repr)
def test_containers_are_not_interactive(fields: Json, problem: str | None) -> None:
    assert message(disallow_interactive, pod_spec(container(**fields))) == problem


def test_all_objects() -> None:
    good, bad = container(stdin=False), container(tty=True)
    check_all_kinds(disallow_interactive, pod_spec(good), pod_spec(bad))
    check_containers(disallow_interactive, good, bad)
    check_exemptions(disallow_interactive, bad)
    check_shapes(disallow_interactive, pod_spec(good), "containers/0/stdin", False)
    check_shapes(disallow_interactive, pod_spec(good), "containers/0/tty", False)
    check_shapes(disallow_interactive, pod_spec(good), "containers", [])


def test_a_violation_that_another_field_allowed_is_new() -> None:
    assert (
        message(disallow_interactive, pod_spec(container(tty=True, stdin=True)), old=pod_spec(container(tty=True)))
        == STDIN
    )


@pytest.mark.parametrize("value", ["nginx", None, [5]], ids=repr)
def test_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        disallow_interactive.bind(exempt_images=value)
