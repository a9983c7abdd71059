"""Reads configuration files in a strict subset of YAML, which includes JSON. Keeps the place of every value.

Plain scalars follow the JSON schema of YAML 1.2: ``no`` and ``2026-01-01`` are strings, ``010`` is not 8. These are
errors: duplicate keys, keys that are not strings, tags, merge keys, more than one document. Limits against malicious
files: 1 MiB, 100 levels, 100,000 values including copies by aliases. The tree is built from parser events, so that
values beyond the limits are never built.
"""

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from webhooks.config.document import Document, Node, Place, locate
from webhooks.config.validation import FieldError, format_value
from webhooks.errors import ConfigurationError, unreadable
from webhooks.kube.yaml_reader import describe_syntax_error

MAX_SIZE = 1024 * 1024  # bytes
MAX_DEPTH = 100
MAX_VALUES = 100_000
_MAX_DIGITS = 64

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(?P<inexact>(\.[0-9]+)?([eE][-+]?[0-9]+)?)")
_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def read(file: Path) -> Document:
    """Read and parse a file.

    Raises:
        ConfigurationError: the file cannot be read, is not valid YAML, or exceeds a limit.
    """
    return parse(read_bytes(file), file)


def read_bytes(file: Path) -> bytes:
    """Read a file, but not much more than `parse` accepts.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    try:
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise ValueError("not a regular file")  # reading a pipe or a device may never end
        with file.open("rb") as opened:
            return opened.read(MAX_SIZE + 1)
    except (OSError, ValueError) as error:
        raise unreadable(file, error) from None


def parse(raw: bytes, file: Path) -> Document:
    """Parse the contents of a file.

    Args:
        raw: the contents.
        file: the file, for error messages.

    Raises:
        ConfigurationError: the contents are not valid YAML, or exceed a limit.
    """
    if len(raw) > MAX_SIZE:
        raise ConfigurationError(locate(file, f"more than {MAX_SIZE} bytes"))
    builder = _TreeBuilder()
    try:
        for event in yaml.parse(_decode(raw), Loader=_Loader):
            builder.add(event)
    except _StrictYamlError as error:
        raise ConfigurationError(locate(file, error.message, error.place)) from None
    except yaml.MarkedYAMLError as error:
        message = describe_syntax_error(error, _decode(raw))
        raise ConfigurationError(locate(file, message, _place(error.problem_mark or error.context_mark))) from None
    if builder.root is None or builder.root.tree is None:
        raise ConfigurationError(locate(file, "the file is empty"))
    return Document(file, builder.root, duplicates=builder.duplicates)


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)


class _StrictYamlError(Exception):
    """The contents are not UTF-8, or use a feature of YAML that is not supported."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.message = message
        self.place = place


def _decode(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        raise _StrictYamlError(f"not UTF-8: the byte 0x{error.object[error.start]:02x}", _end(before)) from None
    forbidden = _FORBIDDEN.search(text)
    if forbidden is not None:
        message = f"the character U+{ord(forbidden[0]):04X} is not allowed"
        raise _StrictYamlError(message, _end(text[: forbidden.start()]))
    return text


def _end(text: str) -> Place:
    return Place(text.count("\n") + 1, len(text) - text.rfind("\n"))


@dataclass(slots=True)
class _OpenNode:
    """A mapping or list that is not complete.

    Attributes:
        node: the node.
        anchor: its anchor.
        key: the key of a mapping whose value comes next; None if a key comes next.
    """

    node: Node
    anchor: str | None
    key: str | None = None


class _TreeBuilder:
    """Builds a tree from parser events.

    Attributes:
        root: the tree after the last event; None for an empty stream.
        duplicates: the duplicate keys.
    """

    def __init__(self) -> None:
        self.root: Node | None = None
        self.duplicates: list[tuple[Place, FieldError]] = []
        self._open: list[_OpenNode] = []
        self._anchors: dict[str, Node] = {}
        self._values = 0
        self._documents = 0

    def add(self, event: yaml.Event) -> None:
        """Add the next event."""
        match event:
            case yaml.ScalarEvent():
                self._add_scalar(event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._open_collection(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                closed = self._open.pop()
                self._add_node(closed.node, closed.anchor)
            case yaml.AliasEvent():
                self._add_alias(event)
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise _StrictYamlError("only one document is allowed in a file", _place(event.start_mark))

    def _add_scalar(self, event: yaml.ScalarEvent) -> None:
        place = _place(event.start_mark)
        _reject_tag(event, place)
        is_plain = event.implicit[0]
        if self._expects_key():
            self._add_key(event.value, is_plain, place)
        else:
            tree = _resolve(event.value, place) if is_plain else event.value
            self._add_node(Node(tree, place), event.anchor)

    def _open_collection(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        place = _place(event.start_mark)
        _reject_tag(event, place)
        if self._expects_key():
            raise _StrictYamlError("a key must be a string", place)
        if len(self._open) == MAX_DEPTH:
            raise _StrictYamlError(f"nested deeper than {MAX_DEPTH} levels", place)
        tree: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._open.append(_OpenNode(Node(tree, place), event.anchor))

    def _add_alias(self, event: yaml.AliasEvent) -> None:
        place = _place(event.start_mark)
        node = self._anchors.get(event.anchor or "")
        if node is None:
            raise _StrictYamlError(f"the anchor &{event.anchor} is not defined, or contains this alias", place)
        if self._expects_key():
            raise _StrictYamlError("a key must be a string", place)
        self._values += node.size - 1
        self._add_node(replace(node, place=place), None)

    def _expects_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].node.tree, dict) and self._open[-1].key is None

    def _add_key(self, key: str, is_plain: bool, place: Place) -> None:
        mapping = self._open[-1]
        if is_plain and key == "<<":
            raise _StrictYamlError("merge keys (<<) are not supported: write the fields out", place)
        first = mapping.node.key_places.setdefault(key, place)
        if first is not place:
            path = (*(_next_step(parent) for parent in self._open[:-1]), key)
            error = FieldError(path, "Duplicate value", f"the key is in line {first.line} already", format_value(key))
            self.duplicates.append((place, error))
        mapping.key = key

    def _add_node(self, node: Node, anchor: str | None) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _StrictYamlError(f"more than {MAX_VALUES} values, including copies by aliases", node.place)
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        step = _next_step(parent)
        parent.node.size += node.size
        parent.node.members[step] = node
        if isinstance(step, str):
            parent.node.tree[step] = node.tree
            parent.key = None
        else:
            parent.node.tree.append(node.tree)


def _next_step(parent: _OpenNode) -> str | int:
    """Return the key or index of the next value."""
    return len(parent.node.tree) if parent.key is None else parent.key


def _reject_tag(event: Any, place: Place) -> None:
    if event.tag is not None:
        raise _StrictYamlError(f"tags are not supported: {format_value(event.tag)}", place)


def _resolve(text: str, place: Place) -> Any:
    """Return the value of a plain scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    if len(text) > _MAX_DIGITS or not math.isfinite(float(text)):
        raise _StrictYamlError("the number is out of range", place)
    return float(text) if number["inexact"] else int(text)
