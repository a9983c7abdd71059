"""Objects inside admission reviews: what helpers tell of one comes from its outline, all else from the whole of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from webhooks.errors import MalformedReview, PatchError
from webhooks.objects import json_patch, pods
from webhooks.objects.partial_patch import partial_tree
from webhooks.objects.pods import Container, Image
from webhooks.objects.strict_json import UNREAD, Document
from webhooks.objects.typed_decoding import Outline, decode_known, outline_of, touches, volumes_of

_TEXTS = frozenset((str,))
_Setting: TypeAlias = tuple[str, str | None, Any]
_NAMES = ("labels", "annotations")
_MAPS = tuple(f"/metadata/{name}" for name in _NAMES)


class Object(Document, eq=False):
    """An object as a review brings it, or as a policy leaves it: shared by all who ask, never changed.

    Args:
        raw: as it came, or what gives that.
        kind: its kind, as the request names it.
        known: of its kind's `KNOWN` type, if it was decoded as that.

    Attributes:
        present: whether there is one; else it is null.
    """

    kind: str = ""
    known: Any = None
    present: bool = True
    _outline: Any = UNREAD
    _patched: "tuple[Object, Sequence[Mapping[str, Any]]] | None" = None

    @classmethod
    def of(cls, tree: dict[str, Any]) -> "Object":
        """An object that is decoded already."""
        return cls(b"", _tree=tree, _outline=None)

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
            MalformedReview: it cannot be read, as far as had to be.
        """
        if self._malformed is not None:
            raise self._malformed
        changed = self._relabelled(operations) or self._partly_patched(operations)
        if changed is not None:
            return changed
        tree = json_patch.apply(self.tree, operations)
        if not isinstance(tree, dict):
            raise PatchError("nothing is left of the object, or something that is none")
        same = tree is self.tree or (tree == self.tree and not json_patch.diff(self.tree, tree))
        return self if same else Object.of(tree)

    def _relabelled(self, operations: Sequence[Mapping[str, Any]]) -> "Object | None":
        """The object after operations that set labels and annotations; None after others, or where it has no outline.

        Most patches set a label. To do that in an outline takes a tenth of what decoding an object takes.
        """
        settings = _settings(operations)
        if settings is None:
            return None
        outline = self._outlined()
        changed = None if outline is None else _relabelled_outline(outline, settings)
        if changed is None:
            return None
        return self if changed is outline else self._after(operations, changed)

    def _partly_patched(self, operations: Sequence[Mapping[str, Any]]) -> "Object | None":
        """The object after operations, of which no more is decoded than they lead to; None where that does not tell."""
        if self._tree is not UNREAD or self._patched is not None:
            return None
        tree = partial_tree(self._as_it_came(), operations)
        if tree is None:
            return None
        try:
            changed = json_patch.apply(tree, operations)
        except PatchError:
            return None  # perhaps for want of the rest
        if changed is tree:
            return self
        if not isinstance(changed, dict) or changed == tree:  # equal values may be of other types
            return None
        return self._after(operations, None if touches(self.kind, operations) else UNREAD)

    def _after(self, operations: Sequence[Mapping[str, Any]], outline: Any) -> "Object":
        """The object after operations that are known to apply.

        Args:
            operations: these.
            outline: its outline; None for none, `UNREAD` for that of this object.
        """
        return Object(b"", kind=self.kind, _outline=outline, _patched=(self, operations))

    def _outlined(self) -> Outline | None:
        if self._outline is UNREAD:
            self._outline = self._find_outline()
        return self._outline  # type: ignore[no-any-return]

    def _find_outline(self) -> Outline | None:
        if self._patched is not None:
            return self._patched[0]._outlined()
        known = self.known
        if known is None and self._tree is UNREAD:
            known = decode_known(self._as_it_came(), self.kind)
        return None if known is None else outline_of(known, self.kind)

    def _read(self) -> tuple[Any, bytes | None]:
        if self._patched is None:
            return super()._read()
        before, operations = self._patched
        return json_patch.apply(before.tree, operations), None


NULL = Object(b"null", _tree=None, present=False, _outline=None)
"""Where a review has no object."""


def _settings(operations: Sequence[Mapping[str, Any]]) -> list[_Setting] | None:
    """The map, the key (None for the map itself) and the value of each operation; None if one does something else."""
    found: list[_Setting] = []
    for operation in operations:
        if type(operation) is not dict or operation.get("op") != "add" or "value" not in operation:
            return None
        path = operation.get("path")
        if type(path) is not str or not path.startswith(_MAPS):
            return None  # as most others do, before they are taken apart
        try:
            _, name, *keys = json_patch.tokens_of(path)
        except PatchError:
            return None
        if name not in _NAMES or len(keys) > 1:
            return None
        found.append((name, keys[0] if keys else None, operation["value"]))
    return found


def _relabelled_outline(outline: Outline, settings: list[_Setting]) -> Outline | None:
    """The outline with labels and annotations set, itself if they were; None where that does not go."""
    maps: dict[str, Any] = {"labels": outline.labels, "annotations": outline.annotations}
    for name, key, value in settings:
        map_ = maps[name]
        if key is None:
            if type(value) is not dict or not _is_texts(value):
                return None
            maps[name] = value
        elif type(value) is str and type(map_) is dict:
            maps[name] = {**map_, key: value}
        else:
            return None
    labels, annotations = maps.values()
    if labels == outline.labels and annotations == outline.annotations:
        return outline
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
