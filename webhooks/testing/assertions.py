"""Assertions on what a server answers, which say what it answered instead."""

from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

import yaml

from webhooks.objects import json_diff
from webhooks.testing.server import Result


def assert_allowed(result: Result) -> None:
    """It may pass, as it is; a token is good.

    Raises:
        AssertionError: it is not so.
    """
    __tracebackhide__ = True
    if result.outcome != "allowed":
        raise AssertionError(f"wanted: allowed\n{described(result)}")


def assert_denied(result: Result, message: str = "", *, code: int | None = None, reason: str | None = None) -> None:
    """It may not pass; a token is bad.

    Args:
        result: what a server answered.
        message: a part of what the user is told.
        code: the code of the denial.
        reason: the reason of the denial.

    Raises:
        AssertionError: it is not so.
    """
    __tracebackhide__ = True
    parts = {"message": message or None, "code": code, "reason": reason}
    wanted = "".join(f"\n  {name}: {value}" for name, value in parts.items() if value is not None)
    same = code in (None, result.code) and reason in (None, result.reason) and message in result.message
    if result.outcome != "denied" or not same:
        raise AssertionError(f"wanted: denied{wanted}\n{described(result)}")


def assert_no_opinion(result: Result) -> None:
    """Somebody else decides.

    Raises:
        AssertionError: it is not so.
    """
    __tracebackhide__ = True
    if result.outcome != "no opinion":
        raise AssertionError(f"wanted: no opinion\n{described(result)}")


def assert_patched(result: Result, expected: Mapping[str, Any]) -> None:
    """It may pass, changed, and this is what it is changed to.

    Raises:
        AssertionError: it is not so; with the difference between the objects.
    """
    __tracebackhide__ = True
    if result.outcome != "patched":
        raise AssertionError(f"wanted: patched\n{described(result)}")
    if not same(expected, result.object):
        raise AssertionError(f"patched to something else:\n{difference(expected, result.object)}")


def described(result: Result) -> str:
    """A result for people: the parts that say something."""
    lines = [f"got: {result.outcome}"]
    if result.code != 200:
        lines.append(f"  code: {result.code}")
    for name in ("reason", "message", "warnings", "audit", "user", "patch", "failures"):
        value = getattr(result, name)
        if isinstance(value, list):
            lines += [f"  {name}:", *(f"  - {each}" for each in value)] if value else []
        elif value:
            lines.append(f"  {name}: {value}")
    if not result.asked:
        lines.append("  no policy was asked")
    return "\n".join(lines)


def same(wanted: Any, got: Any) -> bool:
    """Whether two trees are the same JSON, where true is not 1."""
    return not json_diff.diff(wanted, got)


def difference(wanted: Any, got: Any) -> str:
    """The difference between two trees, as YAML."""
    return "\n".join(unified_diff(_lines(wanted), _lines(got), "wanted", "got", lineterm=""))


def _lines(tree: Any) -> list[str]:
    return yaml.safe_dump(tree, allow_unicode=True, width=1000).splitlines()
