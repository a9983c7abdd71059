"""YAML of manifests, read as clients of the API read it before they send it: YAML 1.1, made into JSON.

So ``on`` and ``yes`` are booleans, ``0644`` is 420, ``1e3`` is 1000, dates are texts, and keys that are no texts
become some. Refused beyond that: keys that are there twice, tags that are not the core's, and what is there to do
harm: nesting over 100 levels, aliases that multiply.
"""

import math
import re
from typing import Any

import yaml

MAX_DEPTH = 100
MAX_REPEATED = 100_000  # values that stand for others by an alias

_TAG = "tag:yaml.org,2002:"
_PLAIN, _QUOTED, _COLLECTION = "plain", "quoted", "collection"
_TYPES: dict[str, tuple[type, ...]] = {
    f"{_TAG}bool": (bool,),
    f"{_TAG}int": (int,),
    f"{_TAG}float": (int, float),
    f"{_TAG}null": (type(None),),
}

_CONSTANTS: dict[str, Any] = {
    each: value
    for words, value in [
        (("", "~", "null"), None),
        (("y", "yes", "true", "on"), True),
        (("n", "no", "false", "off"), False),
        ((".inf", "+.inf", ".nan"), math.inf),
        (("-.inf",), -math.inf),
    ]
    for word in words
    for each in (word, word.capitalize(), word.upper())
} | {".Inf": math.inf, "+.Inf": math.inf, "-.Inf": -math.inf, ".NaN": math.inf}
_INTEGER = re.compile(r"[-+]?(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES = {"hex": 16, "bin": 2, "oct": 8}
_MAX_INTEGER = 2**64
_MAX_INTEGRAL = 1e21  # floats from here on are written with an exponent


class Unreadable(Exception):
    """What is no document.

    Attributes:
        what: why.
        line: the line, from 0.
    """

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.what = what
        self.line = line


class Tree:
    """One document: its value, and the lines in it where things stand.

    Attributes:
        value: dicts, lists, texts, numbers, booleans and None; nothing in it is shared.
        line: where it begins, from 0.

    Raises:
        Unreadable: it is no YAML, or is beyond the limits.
    """

    def __init__(self, text: str) -> None:
        self._root = _compose(text)
        self.line = 0 if self._root is None else self._root.start_mark.line
        self.value = None if self._root is None else _Builder().build(self._root, 0)

    def lines_of(self, key: str) -> list[int]:
        """The lines of what is in the list of that name, from 0."""
        for name, value in self._root.value if isinstance(self._root, yaml.MappingNode) else ():
            if name.value == key and isinstance(value, yaml.SequenceNode):
                return [each.start_mark.line for each in value.value]
        return []


_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _Composer(_Loader):  # type: ignore[misc]  # the faster of two classes
    """Composes nodes; their tags tell texts without quotes from others, and no more."""

    _depth = 0

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:  # noqa: ARG002
        if kind is not yaml.ScalarNode:
            return _COLLECTION
        return _PLAIN if implicit[0] else _QUOTED

    def descend_resolver(self, parent: Any, index: Any) -> None:  # noqa: ARG002
        # Here, since the composer itself goes deeper until the process ends.
        self._depth += 1
        if self._depth > MAX_DEPTH + 1:
            raise Unreadable(f"nested deeper than {MAX_DEPTH} levels", parent.start_mark.line)

    def ascend_resolver(self) -> None:
        self._depth -= 1


def _compose(text: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = _Composer(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        what = ": ".join(part for part in ("not YAML", error.context, error.problem) if part)
        mark = error.problem_mark or error.context_mark
        raise Unreadable(what, mark.line if mark is not None else 0) from None
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n")
        raise Unreadable(f"not text: {error.reason}", line) from None
    return node


class _Builder:
    """Builds values of nodes."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._repeated = 0

    def build(self, node: yaml.Node, depth: int) -> Any:
        self._count(node)
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if node.tag not in (_COLLECTION, f"{_TAG}map", f"{_TAG}seq"):
            raise Unreadable(f"the tag {node.tag!r} is not supported", node.start_mark.line)
        if depth == MAX_DEPTH:
            raise Unreadable(f"nested deeper than {MAX_DEPTH} levels", node.start_mark.line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, depth + 1)
        return [self.build(each, depth + 1) for each in node.value]

    def _count(self, node: yaml.Node) -> None:
        if id(node) not in self._seen:
            self._seen.add(id(node))
            return
        self._repeated += 1
        if self._repeated > MAX_REPEATED:
            raise Unreadable(f"more than {MAX_REPEATED} values that aliases repeat", node.start_mark.line)

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        merged: set[str] = set()
        for name, value in node.value:
            if name.value == "<<" and name.tag == _PLAIN:
                for key, each in self._merged(value, depth).items():
                    if key not in merged:
                        _refuse_twice(members, key, name)
                        members[key] = each
                        merged.add(key)
                continue
            key = _key(name)
            if key not in merged:
                _refuse_twice(members, key, name)
            merged.discard(key)
            members[key] = self.build(value, depth)
        return members

    def _merged(self, node: yaml.Node, depth: int) -> dict[str, Any]:
        """What a merge key brings; of several mappings the first counts."""
        value = self.build(node, depth)
        brought: dict[str, Any] = {}
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, dict):
                raise Unreadable("a merge key (<<) brings mappings and nothing else", node.start_mark.line)
            brought = {**each, **brought}
        return brought


def _refuse_twice(members: dict[str, Any], key: str, name: yaml.Node) -> None:
    if key in members:
        raise Unreadable(f"the key {key[:64]!r} is there twice", name.start_mark.line)


def _key(node: yaml.Node) -> str:
    key = _scalar(node) if isinstance(node, yaml.ScalarNode) else None
    if key is None:
        raise Unreadable("a key must be a text", node.start_mark.line)
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _scalar(node: yaml.ScalarNode) -> Any:
    if node.tag == _QUOTED or node.tag == f"{_TAG}str":
        return node.value
    value = resolved(node.value)
    if isinstance(value, float) and math.isinf(value):
        raise Unreadable(f"{node.value} is no number in JSON", node.start_mark.line)
    if isinstance(value, int) and not -_MAX_INTEGER < value < _MAX_INTEGER:
        raise Unreadable("an integer beyond 64 bits", node.start_mark.line)
    if node.tag != _PLAIN and not (node.tag in _TYPES and isinstance(value, _TYPES[node.tag])):
        raise Unreadable(f"the tag {node.tag!r} is not supported here", node.start_mark.line)
    return value


def resolved(text: str) -> Any:
    """What a text without quotes is; infinite where it is a number that JSON has not."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "0123456789+-.":
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    integer = _INTEGER.fullmatch(plain)
    if integer is not None:
        return _integer(plain, integer)
    if not _FLOAT.fullmatch(plain) or math.isinf(value := float(plain)):
        return text
    return int(value) if value.is_integer() and abs(value) < _MAX_INTEGRAL else value


def _integer(plain: str, found: re.Match[str]) -> int:
    if len(plain) > 72:  # with all digits of any base, a number beyond 64 bits
        return _MAX_INTEGER
    base = found.lastgroup
    value = int(plain, 10) if base is None else int(found[base], _BASES[base])
    return -value if base is not None and plain[0] == "-" else value
