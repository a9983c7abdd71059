"""Writes objects as YAML that readers of YAML 1.1 and 1.2 decode to the same value.

The order of keys is kept. Strings of several lines become block text where possible. All characters are printable.
"""

import re
from typing import Any

import yaml

from webhooks.kube.yaml_reader import resolve_scalar

# Strings that need no quotes, unless a reader resolves them to another type.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+-]*(?:[ :][A-Za-z0-9_./@+-]+)*|[0-9]+[A-Za-z]+")
_NO_FOLDING = 2**31 - 1  # the line width

_FastDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_FastDumper):  # type: ignore[misc]  # the base class depends on the platform
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _represent_str(dumper: Any, text: str) -> yaml.ScalarNode:
    if _PLAIN.fullmatch(text) and resolve_scalar(text) == text:
        style = None
    else:
        style = "|" if "\n" in text and _fits_block(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)  # type: ignore[no-any-return]


def _fits_block(text: str) -> bool:
    """Check that the lines of a text are printable and that the first one is neither empty nor indented."""
    lines = text.split("\n")
    return lines[0][:1] not in ("", " ") and all(map(str.isprintable, lines))


_Dumper.add_representer(str, _represent_str)


def to_yaml(value: Any) -> str:
    """Return a JSON value as YAML."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_NO_FOLDING)
    if text.endswith("\n...\n"):  # the end of the document, which is written after some scalars
        text = text.removesuffix("...\n")
    return text if text.replace("\n", "").isprintable() else "".join(map(_escape, text))


def _escape(character: str) -> str:
    """Escape a character of a quoted string: other strings are printable."""
    return character if character.isprintable() or character == "\n" else f"\\U{ord(character):08x}"


def to_yaml_lines(value: Any) -> list[str]:
    """Return the lines of a JSON value as YAML."""
    return to_yaml(value).removesuffix("\n").split("\n")
