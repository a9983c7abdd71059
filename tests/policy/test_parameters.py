"""Conversion of parameters, and its error messages."""

import re
from collections.abc import Sequence
from typing import Any, TypedDict

import pytest

from webhooks.policy.parameters import convert


class Label(TypedDict):
    key: str


@pytest.mark.parametrize(
    ("value", "type_", "message"),
    [
        ("owner", Sequence[str], "must be a list, not a string: write [owner]"),
        ("a, b", Sequence[str], "must be a list, not a string"),
        ({"a": 1}, list[str], "must be a list, not a mapping"),
        ("5", int, "must be an integer, not a string"),
        (True, int, "must be an integer, not a boolean"),
        (1, bool, "must be true or false, not an integer"),
        (None, float, "must be a number, not null"),
        (5, str | None, "must be a string or null, not an integer"),
        ([5], Sequence[str], "[0]: must be a string, not an integer"),
        ([{"key": 5}], Sequence[Label], "[0].key: must be a string, not an integer"),
        ({"key": 5}, Label, "key: must be a string, not an integer"),
        ([{}], Sequence[Label], "Object missing required field `key` - at `$[0]`"),
    ],
)
def test_errors(value: Any, type_: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        convert(value, type_)


def test_values() -> None:
    assert convert(("a",), list[str]) == ["a"]
    assert convert(["a"], tuple[str, ...]) == ("a",)
