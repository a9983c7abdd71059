"""A configuration document: plain values and their places in the file, for error messages."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel

from webhooks.config.validation import FieldError, FieldPath, check
from webhooks.errors import ConfigurationError, printable

M = TypeVar("M", bound=BaseModel)


class Place(NamedTuple):
    """A line of a file and a column of that line, both counted from 1."""

    line: int
    column: int


@dataclass(slots=True)
class Node:
    """A value and its place.

    Attributes:
        tree: the plain value.
        place: the place of the value.
        size: the number of values in it, including itself; an alias counts as a copy.
        members: the nodes of a mapping or list, by key or index.
        key_places: the places of the keys of a mapping.
    """

    tree: Any
    place: Place
    size: int = 1
    members: dict[str | int, "Node"] = field(default_factory=dict)
    key_places: dict[str | int, Place] = field(default_factory=dict)


class Document:
    """A configuration document, or a part of one.

    Args:
        file: the file, for error messages.
        root: the values.
        path: the path of this part in the file.
        duplicates: the duplicate keys of the document.

    Attributes:
        file: the file.
    """

    def __init__(
        self, file: Path, root: Node, path: FieldPath = (), duplicates: Sequence[tuple[Place, FieldError]] = ()
    ) -> None:
        self.file = file
        self._root = root
        self._path = path
        self._duplicates = duplicates

    @property
    def tree(self) -> Any:
        """The plain values: dicts, lists, strings, numbers, booleans and None. Aliases are shared: do not modify it.

        Raises:
            ConfigurationError: the document has duplicate keys.
        """
        if self._duplicates:
            raise self.error(())
        return self._root.tree

    def read(self, model: type[M], context: Any = None) -> M:
        """Validate the document.

        Args:
            model: a pydantic model, see `Model`.
            context: the context of the validation, for validators (`info.context`).

        Raises:
            ConfigurationError: the document is invalid; one line for each error.
        """
        result = check(self._root.tree, model, context)
        if isinstance(result, list):
            raise self.error(result)
        if self._duplicates:
            raise self.error(())
        return result

    def part(self, *path: str | int) -> "Document":
        """Return the part at a path; an empty mapping if it is absent or null. Its errors show the full path.

        Use it on documents that have been read: duplicate keys are not reported again.
        """
        root = self._root
        for step in path:
            root = root.members.get(step) or Node(None, root.place)
        return Document(self.file, root if root.tree is not None else Node({}, root.place), self._path + path)

    def place(self, path: FieldPath) -> Place:
        """Return the place of the value at a path; if it is absent, that of the nearest value around it."""
        node = self._root
        for step in path:
            if step not in node.members:
                break
            node = node.members[step]
        return node.place

    def find_place(self, path: FieldPath) -> Place | None:
        """Return the place of the value at a path; None if it is absent."""
        node = self._root
        for step in path:
            if step not in node.members:
                return None
            node = node.members[step]
        return node.place

    def key_place(self, path: FieldPath) -> Place:
        """Return the place of the key at a path; if there is no such key, that of the value."""
        parent = self._root
        for step in path[:-1]:
            parent = parent.members.get(step, parent)
        key = parent.key_places.get(path[-1]) if path else None
        return self.place(path) if key is None else key

    def error(self, errors: Iterable[FieldError]) -> ConfigurationError:
        """Return an exception with all errors in the order of their places: ``FILE:LINE:COLUMN: limits[0]: ...``."""
        located = [*self._duplicates, *((self._find_error_place(error), error) for error in errors)]
        lines = [
            locate(self.file, str(replace(error, path=self._path + error.path)), place)
            for place, error in sorted(located, key=lambda item: item[0])
        ]
        return ConfigurationError("\n".join(lines))

    def _find_error_place(self, error: FieldError) -> Place:
        return self.key_place(error.path) if error.kind == "Forbidden" else self.place(error.path)


def locate(file: Path, message: str, place: Place | None = None) -> str:
    """Return a message with its location."""
    location = printable(str(file))
    return f"{location}: {message}" if place is None else f"{location}:{place.line}:{place.column}: {message}"
