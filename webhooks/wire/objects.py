"""Objects inside admission reviews: what helpers tell of one comes from its outline, all else from the whole of it."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from webhooks import patching, pods
from webhooks.errors import MalformedReview, PatchError
from webhooks.pods import Container, Image
from webhooks.wire.documents import UNREAD, Document
from webhooks.wire.outlines import Outline, decode_known, outline_of, volumes_of

_TEXTS = frozenset((str,))
_IN_A_MAP = re.compile(r"/metadata/(labels|annotations)(?:/((?:[^/~]|~[01])*))?", re.DOTALL)


class Object(Document):
    """An object as a review brings it, or as a policy leaves it: shared by all who ask, never changed.

    Args:
        raw: as it came, or what gives that.
        kind: its kind, as the request names it.
        known: of its kind's `KNOWN` type, if it was decoded as that.

    Attributes:
        present: whether there is one; else it is null.
    """

    __slots__ = ("_kind", "_known", "_outline", "_patched", "present")

    def __init__(self, raw: Any, kind: str = "", known: Any = None) -> None:
        super().__init__(raw)
        self.present = True
        self._kind = kind
        self._known = known
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

    def image_volumes(self) -> list[Image]:
        """The image of every volume that is filled from one.

        Raises:
            ValueError: it is so misshapen that a volume could hide in it.
        """
        outline = self._outlined()
        volumes = None if outline is None else volumes_of(outline)
        if outline is not None and volumes is not None:
            return pods.outlined_image_volumes(volumes, outline.pointer)
        return pods.image_volumes(self.tree) if self.present else []

    def patched(self, operations: Sequence[Mapping[str, Any]]) -> "Object":
        """The object after JSON Patch operations: itself where they change nothing.

        Raises:
            PatchError: they do not apply, or leave no object.
        """
        outline = self._outlined()
        changed = None if outline is None else _patched_outline(outline, operations)
        if changed is not None:
            if changed is outline:
                return self
            found = Object(b"")
            found._outline, found._patched = changed, (self, operations)
            return found
        tree = patching.apply(self.tree, operations)
        if not isinstance(tree, dict):
            raise PatchError("nothing is left of the object, or something that is none")
        same = tree is self.tree or (tree == self.tree and not patching.diff(self.tree, tree))
        return self if same else Object.of(tree)

    def _outlined(self) -> Outline | None:
        if self._outline is UNREAD:
            known = self._known
            if known is None and self._tree is UNREAD:
                known = decode_known(self._raw, self._kind)
            self._outline = None if known is None else outline_of(known, self._kind)
        return self._outline  # type: ignore[no-any-return]

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


def _patched_outline(outline: Outline, operations: Sequence[Mapping[str, Any]]) -> Outline | None:
    """The outline after operations that set labels and annotations, itself if they change nothing; None after others.

    Most patches set a label. To apply one to a map takes a tenth of what decoding an object takes to apply it to that.
    """
    maps: dict[str, Any] = {"labels": outline.labels, "annotations": outline.annotations}
    for operation in operations:
        path, value = _setting(operation)
        place = _IN_A_MAP.fullmatch(path)
        if place is None:
            return None
        name, key = place.groups()
        map_ = maps[name]
        if key is None:
            if type(value) is not dict or not _is_texts(value):
                return None
            maps[name] = value
        elif type(value) is str and type(map_) is dict:
            maps[name] = {**map_, key.replace("~1", "/").replace("~0", "~"): value}
        else:
            return None
    labels, annotations = maps.values()
    if labels == outline.labels and annotations == outline.annotations:
        return outline
    return Outline(outline.name, outline.generate_name, labels, annotations, outline.pod, outline.pointer)


def _setting(operation: Any) -> tuple[str, Any]:
    """Where an operation puts what, whatever is there; nothing nowhere if it is of another sort."""
    if type(operation) is not dict or operation.get("op") != "add" or "value" not in operation:
        return "", None
    path = operation.get("path")
    return (path, operation["value"]) if type(path) is str else ("", None)


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
