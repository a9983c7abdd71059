"""Reads YAML manifests as clients of the Kubernetes API do before they send them: YAML 1.1, converted to JSON.

So ``on`` and ``yes`` are booleans, ``0644`` is 420, ``1e3`` is 1000, dates are strings, and keys are converted to
strings. Rejected in addition: duplicate keys, tags other than those of the YAML core schema, more than 100 levels of
nesting, and aliases that repeat more than 100,000 values.
"""

import math
import re
from typing import Any

import yaml

MAX_DEPTH = 100
MAX_REPEATED = 100_000  # values that aliases repeat

_TAG = "tag:yaml.org,2002:"
_PLAIN, _QUOTED, _COLLECTION = "plain", "quoted", "collection"
_TYPES: dict[str, tuple[type, ...]] = {
    f"{_TAG}bool": (bool,),
    f"{_TAG}int": (int,),
    f"{_TAG}float": (int, float),
    f"{_TAG}null": (type(None),),
}

_CONSTANTS: dict[str, Any] = {
    spelling: value
    for words, value in [
        (("", "~", "null"), None),
        (("y", "yes", "true", "on"), True),
        (("n", "no", "false", "off"), False),
        ((".inf", "+.inf", ".nan"), math.inf),
        (("-.inf",), -math.inf),
    ]
    for word in words
    for spelling in (word, word.capitalize(), word.upper())
} | {".Inf": math.inf, "+.Inf": math.inf, "-.Inf": -math.inf, ".NaN": math.inf}
_INTEGER = re.compile(r"[-+]?(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES = {"hex": 16, "bin": 2, "oct": 8}
_MAX_INTEGER = 2**64
_MAX_INTEGRAL = 1e21  # clients write larger floats with an exponent


class YamlError(Exception):
    """A document that cannot be read.

    Attributes:
        reason: the reason.
        line: the line of the problem, counted from 0.
    """

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class YamlDocument:
    """A YAML document.

    Args:
        text: the text of the document.

    Attributes:
        value: the value, of dicts, lists, strings, numbers, booleans and None. No part of it is shared.
        line: the line of its first value, counted from 0.

    Raises:
        YamlError: the text is not YAML, or exceeds a limit.
    """

    def __init__(self, text: str) -> None:
        self._root = _compose(text)
        self.line = 0 if self._root is None else self._root.start_mark.line
        self.value = None if self._root is None else _Builder().build(self._root, 0)

    def item_lines(self, key: str) -> list[int]:
        """Return the lines of the items of a top-level list, counted from 0."""
        for name, value in self._root.value if isinstance(self._root, yaml.MappingNode) else ():
            if name.value == key and isinstance(value, yaml.SequenceNode):
                return [item.start_mark.line for item in value.value]
        return []


_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _Composer(_Loader):  # type: ignore[misc]  # the base class depends on the platform
    """Composes nodes. Without an explicit tag, the tag of a scalar is _PLAIN or _QUOTED."""

    _depth = 0

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:  # noqa: ARG002
        if kind is not yaml.ScalarNode:
            return _COLLECTION
        return _PLAIN if implicit[0] else _QUOTED

    def descend_resolver(self, parent: Any, index: Any) -> None:  # noqa: ARG002
        # The composer itself has no limit and would overflow the stack of the process.
        self._depth += 1
        if self._depth > MAX_DEPTH + 1:
            raise YamlError(f"nested deeper than {MAX_DEPTH} levels", parent.start_mark.line)

    def ascend_resolver(self) -> None:
        self._depth -= 1


def _compose(text: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = _Composer(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(describe_syntax_error(error, text), mark.line if mark is not None else 0) from None
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n")
        raise YamlError(f"not text: {error.reason}", line) from None
    return node


def describe_syntax_error(error: yaml.MarkedYAMLError, text: str) -> str:
    """Return the reason why a text is not YAML."""
    mark = error.problem_mark
    lines = text.splitlines() if mark is not None else []
    if mark is not None and mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t":
        return "not YAML: tabs are not allowed: indent with spaces"
    return ": ".join(part for part in ("not YAML", error.context, error.problem) if part)


class _Builder:
    """Builds the value of a node."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._repeated = 0

    def build(self, node: yaml.Node, depth: int) -> Any:
        self._count(node)
        if isinstance(node, yaml.ScalarNode):
            return _build_scalar(node)
        if node.tag not in (_COLLECTION, f"{_TAG}map", f"{_TAG}seq"):
            raise YamlError(f"the tag {node.tag!r} is not supported", node.start_mark.line)
        if depth == MAX_DEPTH:
            raise YamlError(f"nested deeper than {MAX_DEPTH} levels", node.start_mark.line)
        if isinstance(node, yaml.MappingNode):
            return self._build_mapping(node, depth + 1)
        return [self.build(item, depth + 1) for item in node.value]

    def _count(self, node: yaml.Node) -> None:
        if id(node) not in self._seen:
            self._seen.add(id(node))
            return
        self._repeated += 1
        if self._repeated > MAX_REPEATED:
            raise YamlError(f"aliases repeat more than {MAX_REPEATED} values", node.start_mark.line)

    def _build_mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        merged: set[str] = set()
        for name, value in node.value:
            if name.value == "<<" and name.tag == _PLAIN:
                for key, merged_value in self._build_merged(value, depth).items():
                    if key not in merged:
                        _check_unique(members, key, name)
                        members[key] = merged_value
                        merged.add(key)
                continue
            key = _build_key(name)
            if key not in merged:
                _check_unique(members, key, name)
            merged.discard(key)
            members[key] = self.build(value, depth)
        return members

    def _build_merged(self, node: yaml.Node, depth: int) -> dict[str, Any]:
        """Build the value of a merge key. Of several mappings, the first with a key counts."""
        value = self.build(node, depth)
        members: dict[str, Any] = {}
        for mapping in value if isinstance(value, list) else [value]:
            if not isinstance(mapping, dict):
                raise YamlError(
                    "the value of a merge key (<<) must be a mapping or a list of them", node.start_mark.line
                )
            members = {**mapping, **members}
        return members


def _check_unique(members: dict[str, Any], key: str, name: yaml.Node) -> None:
    if key in members:
        raise YamlError(f"duplicate key {key[:64]!r}", name.start_mark.line)


def _build_key(node: yaml.Node) -> str:
    key = _build_scalar(node) if isinstance(node, yaml.ScalarNode) else None
    if key is None:
        raise YamlError("a key must be a string", node.start_mark.line)
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _build_scalar(node: yaml.ScalarNode) -> Any:
    if node.tag == _QUOTED or node.tag == f"{_TAG}str":
        return node.value
    value = resolve_scalar(node.value)
    if isinstance(value, float) and math.isinf(value):
        raise YamlError(f"{node.value} is not a number in JSON", node.start_mark.line)
    if isinstance(value, int) and not -_MAX_INTEGER < value < _MAX_INTEGER:
        raise YamlError("an integer of more than 64 bits", node.start_mark.line)
    if node.tag != _PLAIN and not (node.tag in _TYPES and isinstance(value, _TYPES[node.tag])):
        raise YamlError(f"the tag {node.tag!r} is not supported here", node.start_mark.line)
    return value


def resolve_scalar(text: str) -> Any:
    """Return the value of a scalar without quotes; infinity for a number that JSON does not have."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "0123456789+-.":
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    integer = _INTEGER.fullmatch(plain)
    if integer is not None:
        return _parse_integer(plain, integer)
    if not _FLOAT.fullmatch(plain) or math.isinf(value := float(plain)):
        return text
    return int(value) if value.is_integer() and abs(value) < _MAX_INTEGRAL else value


def _parse_integer(plain: str, match: re.Match[str]) -> int:
    if len(plain) > 72:  # more than 64 bits in any base
        return _MAX_INTEGER
    base = match.lastgroup
    value = int(plain, 10) if base is None else int(match[base], _BASES[base])
    return -value if base is not None and plain[0] == "-" else value
