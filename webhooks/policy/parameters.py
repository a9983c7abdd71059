"""Converts values of parameters to their annotated types, with errors for operators."""

import re
from typing import Any

import msgspec

_TYPES = {  # by the names in messages of msgspec
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "an integer",
    "null": "null",
    "object": "a mapping",
    "str": "a string",
}
_MISMATCH = re.compile(r"Expected `(?P<expected>[a-z |]+)`, got `(?P<actual>[a-z]+)`(?: - at `\$\.?(?P<path>.*)`)?")
_PLAIN = re.compile(r"[\w./*-]{1,64}")


def convert(value: Any, type_: Any) -> Any:
    """Convert a value to a type.

    Raises:
        ValueError: the value has the wrong type.
    """
    if type(value) is tuple:  # configuration has lists, but a default should be an immutable tuple
        value = list(value)
    try:
        return msgspec.convert(value, type_)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise ValueError(_explain(str(error), value)) from None


def _explain(message: str, value: Any) -> str:
    """Word a message of msgspec in terms of YAML. Messages of other kinds are kept."""
    mismatch = _MISMATCH.fullmatch(message)
    if mismatch is None:
        return message
    expected, actual = mismatch["expected"].split(" | "), mismatch["actual"]
    location = f"{mismatch['path']}: " if mismatch["path"] else ""
    types = " or ".join(_TYPES.get(name, name) for name in expected)
    found = "a boolean" if actual == "bool" else _TYPES.get(actual, actual)
    can_be_item = "array" in expected and not location and isinstance(value, str) and _PLAIN.fullmatch(value)
    return f"{location}must be {types}, not {found}" + (f": write [{value}]" if can_be_item else "")
