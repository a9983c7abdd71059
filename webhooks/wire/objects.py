"""Objects inside admission reviews: what helpers tell of one comes from its outline, all else from the whole of it."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from webhooks import patching, pods
from webhooks.errors import MalformedReview, PatchError
from webhooks.pods import Container
from webhooks.wire.documents import UNREAD, Document
from webhooks.wire.outlines import Outline, outline_of

_TEXTS = frozenset((str,))
_IN_A_MAP = re.compile(r"/metadata/(?:labels|annotations)(?:/[^/]*)?", re.DOTALL)
_SIMPLE = frozenset(("add", "replace", "remove"))


class Object(Document):
    """An object as a review brings it, or as a policy leaves it: shared by all who ask, never changed.

    Args:
        raw: as it came.
        kind: its kind, as the request names it.

    Attributes:
        present: whether there is one; else it is null.
    """

    __slots__ = ("_kind", "_outline", "_patched", "present")

    def __init__(self, raw: bytes | msgspec.Raw, kind: str = "") -> None:
        super().__init__(raw)
        self.present = True
        self._kind = kind
        self._outline: Any = UNREAD
        self._patched: tuple[Object, Sequence[Mapping[str, Any]]] | None = None

    @classmethod
    def of(cls, tree: dict[str, Any]) -> "Object":
        """An object that is decoded already."""
        found = cls(b"")
        found._tree, found._outline = tree, None
        return found

    def text(self, field: str) -> str:
        """A text of its metadata; empty if there is none.

        Args:
            field: ``name`` or ``generateName``.
        """
        outline = self._outlined()
        if outline is not None:
            return (outline.name if field == "name" else outline.generate_name) or ""
        value = _metadata(self.tree).get(field)
        return value if isinstance(value, str) else ""

    def labels(self) -> dict[str, str]:
        """Its labels; a copy.

        Raises:
            MalformedReview: they are no map of texts.
        """
        outline = self._outlined()
        return dict(outline.labels or ()) if outline is not None else _texts(self.tree, "labels")

    def annotations(self) -> dict[str, str]:
        """Its annotations; a copy.

        Raises:
            MalformedReview: they are no map of texts.
        """
        outline = self._outlined()
        return dict(outline.annotations or ()) if outline is not None else _texts(self.tree, "annotations")

    def containers(self, owner: Callable[[], dict[str, Any]]) -> list[Container]:
        """Every container of it.

        Args:
            owner: gives the copy that `Container.spec` lies in.

        Raises:
            ValueError: it is so misshapen that a container could hide in it.
        """
        outline = self._outlined()
        if outline is not None:
            return pods.outlined(outline.pod, outline.pointer, owner)
        return pods.containers(self.tree, owner) if self.present else []

    def patched(self, operations: Sequence[Mapping[str, Any]]) -> "Object":
        """The object after JSON Patch operations: itself where they change nothing.

        Raises:
            PatchError: they do not apply, or leave no object.
        """
        outline = self._outlined()
        if outline is not None and all(map(_is_in_a_map, operations)):
            changed = _patched_outline(outline, operations)
            if changed is outline:
                return self
            if changed is not None:
                found = Object(b"")
                found._outline, found._patched = changed, (self, operations)
                return found
        tree = patching.apply(self.tree, operations)
        if not isinstance(tree, dict):
            raise PatchError("nothing is left of the object, or something that is none")
        same = tree is self.tree or (tree == self.tree and not patching.diff(self.tree, tree))
        return self if same else Object.of(tree)

    def _outlined(self) -> Outline | None:
        outline = self._outline
        if outline is UNREAD:
            outline = self._outline = None if self._tree is not UNREAD else outline_of(self.raw, self._kind)
        return outline  # type: ignore[no-any-return]

    def _read(self) -> tuple[Any, bytes | None]:
        if self._patched is None:
            return super()._read()
        before, operations = self._patched
        return patching.apply(before.tree, operations), None


class _Null(Object):
    """Where a review has no object."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(b"null")
        self.present = False
        self._tree = self._outline = None


NULL = _Null()


def _is_in_a_map(operation: Any) -> bool:
    """Whether labels and annotations are all that an operation needs to know and may change."""
    if type(operation) is not dict or operation.get("op") not in _SIMPLE:
        return False
    path = operation.get("path")
    return type(path) is str and _IN_A_MAP.fullmatch(path) is not None


def _patched_outline(outline: Outline, operations: Sequence[Mapping[str, Any]]) -> Outline | None:
    """The outline after operations: itself where they change nothing, None where it has no outline any more."""
    maps = {"labels": outline.labels, "annotations": outline.annotations}
    before = {"metadata": {name: map_ for name, map_ in maps.items() if map_ is not msgspec.UNSET}}
    after = patching.apply(before, operations)
    if after == before:
        return outline
    metadata = after["metadata"]
    labels, annotations = (metadata.get(name, msgspec.UNSET) for name in maps)
    if not (_is_texts(labels) and _is_texts(annotations)):
        return None
    return Outline(outline.name, outline.generate_name, labels, annotations, outline.pod, outline.pointer)


def _is_texts(value: Any) -> bool:
    """Whether this is a map of texts, or none at all."""
    if type(value) is dict:
        return _TEXTS.issuperset(map(type, value.values()))
    return value is None or value is msgspec.UNSET


def _metadata(tree: Any) -> dict[str, Any]:
    metadata = tree.get("metadata") if tree is not None else None
    if metadata is None:
        return {}
    if type(metadata) is not dict:
        raise MalformedReview("metadata is not an object", code=422)
    return metadata


def _texts(tree: Any, field: str) -> dict[str, str]:
    value = _metadata(tree).get(field)
    if not _is_texts(value):
        raise MalformedReview(f"metadata.{field} is not a map of texts", code=422)
    return dict(value or ())
