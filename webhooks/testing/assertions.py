"""Assertions on the result of a review. A failed assertion shows the result."""

from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

import yaml

from webhooks.objects import json_diff
from webhooks.testing.server import Result


def assert_allowed(result: Result) -> None:
    """Assert that a request is allowed and not changed, or that a token is valid.

    Raises:
        AssertionError: the result is different.
    """
    __tracebackhide__ = True
    if result.outcome != "allowed":
        raise AssertionError(f"expected: allowed\n{describe(result)}")


def assert_denied(result: Result, message: str = "", *, code: int | None = None, reason: str | None = None) -> None:
    """Assert that a request is denied, or that a token is invalid.

    Args:
        result: the result of a review.
        message: a part of the message for the user.
        code: the code of the denial.
        reason: the reason of the denial.

    Raises:
        AssertionError: the result is different.
    """
    __tracebackhide__ = True
    fields = {"message": message or None, "code": code, "reason": reason}
    expected = "".join(f"\n  {name}: {value}" for name, value in fields.items() if value is not None)
    matches = code in (None, result.code) and reason in (None, result.reason) and message in result.message
    if result.outcome != "denied" or not matches:
        raise AssertionError(f"expected: denied{expected}\n{describe(result)}")


def assert_no_opinion(result: Result) -> None:
    """Assert that no policy decides, so that the decision is left to other authorizers or authenticators.

    Raises:
        AssertionError: the result is different.
    """
    __tracebackhide__ = True
    if result.outcome != "no opinion":
        raise AssertionError(f"expected: no opinion\n{describe(result)}")


def assert_patched(result: Result, expected: Mapping[str, Any]) -> None:
    """Assert that a request is allowed and changed.

    Args:
        result: the result of a review.
        expected: the object with all changes.

    Raises:
        AssertionError: the result is different; the message shows the difference between the objects.
    """
    __tracebackhide__ = True
    if result.outcome != "patched":
        raise AssertionError(f"expected: patched\n{describe(result)}")
    if not is_same_json(expected, result.object):
        raise AssertionError(f"the patched object is different:\n{diff_yaml(expected, result.object)}")


def describe(result: Result) -> str:
    """Describe a result by its fields that are not empty."""
    lines = [f"actual: {result.outcome}"]
    if result.code != 200:
        lines.append(f"  code: {result.code}")
    for name in ("reason", "message", "warnings", "audit", "user", "patch", "failures"):
        value = getattr(result, name)
        if isinstance(value, list):
            lines += [f"  {name}:", *(f"  - {item}" for item in value)] if value else []
        elif value:
            lines.append(f"  {name}: {value}")
    if not result.policies:
        lines.append("  no policy matched")
    return "\n".join(lines)


def is_same_json(expected: Any, actual: Any) -> bool:
    """Check whether two values are the same JSON. Unlike in Python, true is not 1."""
    return not json_diff.diff(expected, actual)


def diff_yaml(expected: Any, actual: Any) -> str:
    """Return the difference between two values as YAML."""
    return "\n".join(unified_diff(_to_lines(expected), _to_lines(actual), "expected", "actual", lineterm=""))


def _to_lines(value: Any) -> list[str]:
    return yaml.safe_dump(value, allow_unicode=True, width=1000).splitlines()
