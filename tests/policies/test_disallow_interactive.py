from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .objects import check_containers, check_everywhere, check_exemptions, check_shapes, container, message, spec_of

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
    assert message(disallow_interactive, spec_of(container(**fields))) == problem


def test_everywhere() -> None:
    good, bad = container(stdin=False), container(tty=True)
    check_everywhere(disallow_interactive, spec_of(good), spec_of(bad))
    check_containers(disallow_interactive, good, bad)
    check_exemptions(disallow_interactive, bad)
    check_shapes(disallow_interactive, spec_of(good), "containers/0/stdin", False)
    check_shapes(disallow_interactive, spec_of(good), "containers/0/tty", False)
    check_shapes(disallow_interactive, spec_of(good), "containers", [])


def test_what_another_field_allowed_before_it_allows_no_more() -> None:
    assert (
        message(disallow_interactive, spec_of(container(tty=True, stdin=True)), old=spec_of(container(tty=True)))
        == STDIN
    )


@pytest.mark.parametrize("value", ["nginx", None, [5]], ids=repr)
def test_its_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        disallow_interactive.bind(exempt_images=value)
