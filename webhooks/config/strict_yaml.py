"""Configuration files: YAML, and JSON as a part of it, with the place of everything in them.

Texts without quotes are what YAML 1.2 makes of them in its JSON schema: ``no`` and ``2026-01-01`` are texts, ``010`` is
not eight. Refused beyond what YAML refuses: duplicate keys, keys that are no texts, tags, merge keys, more documents;
and what is there to do harm: more than 1 MiB, nesting over 100 levels, aliases that multiply. The tree is built of
the parser's events, one by one, so that what is beyond the limits is never built at all.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel

from webhooks.config.validation import FieldError, FieldPath, check, format_value, quote
from webhooks.errors import ConfigurationError

MAX_SIZE = 1024 * 1024  # bytes
MAX_DEPTH = 100
MAX_VALUES = 100_000
_MAX_DIGITS = 64

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(?P<inexact>(\.[0-9]+)?([eE][-+]?[0-9]+)?)")
_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}

M = TypeVar("M", bound=BaseModel)


class Place(NamedTuple):
    """A line and a column in it, both from 1."""

    line: int
    column: int


@dataclass(slots=True)
class _Node:
    """A value and its place; of a mapping or a list also those inside, by key or number, and the places of the keys."""

    tree: Any
    place: Place
    size: int = 1
    members: dict[str | int, "_Node"] = field(default_factory=dict)
    keys: dict[str | int, Place] = field(default_factory=dict)


class Document:
    """A configuration, or a part of one.

    Attributes:
        file: what it was read from.
    """

    def __init__(
        self, file: Path, root: _Node, path: FieldPath = (), duplicates: Sequence[tuple[Place, FieldError]] = ()
    ) -> None:
        self.file = file
        self._root = root
        self._path = path
        self._duplicates = duplicates

    @property
    def tree(self) -> Any:
        """The plain values: dicts, lists, texts, numbers, booleans and None. Aliases share theirs: not to be changed.

        Raises:
            ConfigurationError: keys are there twice.
        """
        if self._duplicates:
            raise self.error(())
        return self._root.tree

    def read(self, model: type[M], context: Any = None) -> M:
        """The values as a model.

        Args:
            model: what they are to be.
            context: for the model's validators, as `info.context`.

        Raises:
            ConfigurationError: with all that is wrong, a line each.
        """
        found = check(self._root.tree, model, context)
        if isinstance(found, list):
            raise self.error(found)
        if self._duplicates:
            raise self.error(())
        return found

    def part(self, *path: str | int) -> "Document":
        """The part below a path; empty where there is nothing. Its errors show the whole path.

        It belongs to a document that has been read: keys that are there twice are told no second time.
        """
        root = self._root
        for step in path:
            root = root.members.get(step) or _Node(None, root.place)
        return Document(self.file, root if root.tree is not None else _Node({}, root.place), self._path + path)

    def place(self, path: FieldPath) -> Place:
        """The place of the value at a path, or of what holds it if there is none."""
        node = self._root
        for step in path:
            if step not in node.members:
                break
            node = node.members[step]
        return node.place

    def key_place(self, path: FieldPath) -> Place:
        """The place of the key at a path, or of the value if it has no key."""
        holder = self._root
        for step in path[:-1]:
            holder = holder.members.get(step, holder)
        key = holder.keys.get(path[-1]) if path else None
        return self.place(path) if key is None else key

    def error(self, findings: Iterable[FieldError]) -> ConfigurationError:
        """An error of all that is wrong, in the order of the places: ``FILE:LINE:COLUMN: limits[0].burst: ...``."""
        placed = [*self._duplicates, *((self._place_of(finding), finding) for finding in findings)]
        lines = [
            _line(self.file, str(replace(finding, path=self._path + finding.path)), place)
            for place, finding in sorted(placed, key=lambda each: each[0])
        ]
        return ConfigurationError("\n".join(lines))

    def _place_of(self, finding: FieldError) -> Place:
        return self.key_place(finding.path) if finding.kind == "Forbidden" else self.place(finding.path)


def read(file: Path) -> Document:
    """Read a file.

    Raises:
        ConfigurationError: it cannot be read, or is no YAML, or is beyond the limits.
    """
    try:
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise ValueError("it is no file")  # and might have no end
        with file.open("rb") as opened:
            raw = opened.read(MAX_SIZE + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigurationError(_line(file, f"cannot be read: {reason}")) from None
    return parse(raw, file)


def parse(raw: bytes, file: Path) -> Document:
    """Read what was in a file.

    Args:
        raw: the bytes.
        file: its name in errors.

    Raises:
        ConfigurationError: it is no YAML, or is beyond the limits.
    """
    if len(raw) > MAX_SIZE:
        raise ConfigurationError(_line(file, f"more than {MAX_SIZE} bytes"))
    builder = _Builder()
    try:
        for event in yaml.parse(_text(raw), Loader=_Loader):
            builder.take(event)
    except _Refusal as refusal:
        raise ConfigurationError(_line(file, refusal.what, refusal.place)) from None
    except yaml.MarkedYAMLError as error:
        what = ": ".join(part for part in ("not YAML", error.context, error.problem) if part)
        raise ConfigurationError(_line(file, what, _place(error.problem_mark or error.context_mark))) from None
    if builder.root is None or builder.root.tree is None:
        raise ConfigurationError(_line(file, "there is nothing in it"))
    return Document(file, builder.root, duplicates=builder.duplicates)


def _line(file: Path, what: str, place: Place | None = None) -> str:
    name = str(file) if str(file).isprintable() else quote(str(file))
    return f"{name}: {what}" if place is None else f"{name}:{place.line}:{place.column}: {what}"


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)


class _Refusal(Exception):
    """What is YAML and not accepted, or not even text."""

    def __init__(self, what: str, place: Place) -> None:
        super().__init__(what)
        self.what = what
        self.place = place


def _text(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        raise _Refusal(f"not UTF-8: the byte 0x{error.object[error.start]:02x}", _end(before)) from None
    bad = _UNPRINTABLE.search(text)
    if bad is not None:
        raise _Refusal(f"the character U+{ord(bad[0]):04X} is not allowed", _end(text[: bad.start()]))
    return text


def _end(text: str) -> Place:
    return Place(text.count("\n") + 1, len(text) - text.rfind("\n"))


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come; of a mapping, the key whose value is next."""

    node: _Node
    anchor: str | None
    key: str | None = None


class _Builder:
    """Builds a tree of the parser's events.

    Attributes:
        root: the tree, when all events are taken; None for an empty stream.
        duplicates: keys that were there before.
    """

    def __init__(self) -> None:
        self.root: _Node | None = None
        self.duplicates: list[tuple[Place, FieldError]] = []
        self._open: list[_Open] = []
        self._anchored: dict[str, _Node] = {}
        self._values = 0
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        """Take the next event."""
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._begin(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                ended = self._open.pop()
                self._add(ended.node, ended.anchor)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise _Refusal("a second document begins here; a file holds one", _place(event.start_mark))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        place = _place(event.start_mark)
        _refuse_tag(event, place)
        plain = event.implicit[0]
        if self._awaits_key():
            self._key(event.value, plain, place)
        else:
            tree = _resolved(event.value, place) if plain else event.value
            self._add(_Node(tree, place), event.anchor)

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        place = _place(event.start_mark)
        _refuse_tag(event, place)
        if self._awaits_key():
            raise _Refusal("a key must be a text", place)
        if len(self._open) == MAX_DEPTH:
            raise _Refusal(f"nested deeper than {MAX_DEPTH} levels", place)
        tree: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._open.append(_Open(_Node(tree, place), event.anchor))

    def _alias(self, event: yaml.AliasEvent) -> None:
        place = _place(event.start_mark)
        node = self._anchored.get(event.anchor or "")
        if node is None:
            raise _Refusal(f"no anchor &{event.anchor} ends before this alias", place)
        if self._awaits_key():
            raise _Refusal("a key must be a text", place)
        self._values += node.size - 1
        self._add(replace(node, place=place), None)

    def _awaits_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].node.tree, dict) and self._open[-1].key is None

    def _key(self, key: str, plain: bool, place: Place) -> None:
        mapping = self._open[-1]
        if plain and key == "<<":
            raise _Refusal("merge keys (<<) are not supported: write out what is to be there", place)
        first = mapping.node.keys.setdefault(key, place)
        if first is not place:
            path = (*(_step(each) for each in self._open[:-1]), key)
            finding = FieldError(path, "Duplicate value", f"the key is in line {first.line} already", format_value(key))
            self.duplicates.append((place, finding))
        mapping.key = key

    def _add(self, node: _Node, anchor: str | None) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _Refusal(f"more than {MAX_VALUES} values, with those that aliases repeat", node.place)
        if anchor is not None:
            self._anchored[anchor] = node
        if not self._open:
            self.root = node
            return
        holder = self._open[-1]
        step = _step(holder)
        holder.node.size += node.size
        holder.node.members[step] = node
        if isinstance(step, str):
            holder.node.tree[step] = node.tree
            holder.key = None
        else:
            holder.node.tree.append(node.tree)


def _step(holder: _Open) -> str | int:
    """The key or number of what comes next."""
    return len(holder.node.tree) if holder.key is None else holder.key


def _refuse_tag(event: Any, place: Place) -> None:
    if event.tag is not None:
        raise _Refusal(f"tags are not supported: {format_value(event.tag)}", place)


def _resolved(text: str, place: Place) -> Any:
    """What a text without quotes is."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    if len(text) > _MAX_DIGITS or not math.isfinite(float(text)):
        raise _Refusal("a number out of range", place)
    return float(text) if number["inexact"] else int(text)
