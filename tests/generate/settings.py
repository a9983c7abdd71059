"""The fields of ``server`` in the configuration file, from the settings."""

import typing
from collections.abc import Iterator
from dataclasses import Field
from pathlib import Path
from typing import Any, Literal

from pydantic.alias_generators import to_camel

from webhooks.settings import Limits, Option, Settings, options, without_none

from .markdown import code, table

_HEADER = ("field", "option", "value", "default", "description")
_OPTIONS_ONLY = ("config", "policies")
_TYPES = {bool: "`true` or `false`", float: "duration", int: "integer", str: "string", Path: "path"}


def server() -> str:
    """Return the table of the fields of ``server``."""
    nested = ("`limits`", "", "mapping", "", "See [limits](#limits).")
    return table(_HEADER, [*_rows(Settings), nested])


def limits() -> str:
    """Return the table of the fields of ``limits``."""
    return table(_HEADER, _rows(Limits))


def _rows(model: type) -> Iterator[tuple[str, ...]]:
    hints = typing.get_type_hints(model)
    for field, option in options(model):
        if field.name not in _OPTIONS_ONLY:
            flag = code(f"--{field.name.replace('_', '-')}")
            value = _value(hints[field.name], option)
            yield code(to_camel(field.name)), flag, value, code(_default(field)), option.help


def _value(hint: Any, option: Option) -> str:
    if typing.get_origin(hint) is tuple:
        return "list of strings"
    hint = without_none(hint)
    if typing.get_origin(hint) is Literal:
        return ", ".join(map(code, typing.get_args(hint)))
    if hint is int:
        return f"{option.min:,} to {option.max:,}"
    return _TYPES[hint]


def _default(field: Field[Any]) -> str:
    if field.default in (None, (), False):
        return ""
    return f"{field.default:g}s" if isinstance(field.default, float) else str(field.default)
