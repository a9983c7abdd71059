"""Objects in admission reviews. Metadata and containers are read from an outline; all else decodes the whole object."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from webhooks.errors import MalformedReview, PatchError
from webhooks.objects import json_diff, json_patch, pods
from webhooks.objects.json_pointer import parse_pointer
from webhooks.objects.partial_patch import decode_partially
from webhooks.objects.pods import Container, Image
from webhooks.objects.strict_json import NOT_LOADED, LazyDocument
from webhooks.objects.typed_decoding import Outline, affects_outline, build_outline, decode_typed, decode_volumes

_STR = frozenset((str,))
_Setting: TypeAlias = tuple[str, str | None, Any]
_MAP_NAMES = ("labels", "annotations")
_MAP_POINTERS = tuple(f"/metadata/{name}" for name in _MAP_NAMES)


class LazyObject(LazyDocument, eq=False):
    """An object in a review, as received or as changed by a policy. It is shared between policies and never changes.

    Args:
        raw: the received bytes, or a function that returns them; empty if the object was created here.
        kind: the kind in the request.
        typed: the object, decoded as the type of its kind, if that has been done.

    Attributes:
        present: whether there is an object; False for null.
    """

    kind: str = ""
    typed: Any = None
    present: bool = True
    _outline: Any = NOT_LOADED
    _patched: "tuple[LazyObject, Sequence[Mapping[str, Any]]] | None" = None

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> "LazyObject":
        """Create an object from a decoded tree."""
        return cls(b"", _tree=tree, _outline=None)

    def metadata_text(self, field: str) -> str:
        """Return a string from the metadata; empty if it is absent or not a string.

        Args:
            field: ``name`` or ``generateName``.
        """
        outline = self._get_outline()
        if outline is not None:
            return (outline.name if field == "name" else outline.generate_name) or ""
        value = _metadata(self.tree).get(field)
        return value if isinstance(value, str) else ""

    def labels(self) -> dict[str, str]:
        """Return a copy of the labels.

        Raises:
            MalformedReview: the labels are not a map of strings.
        """
        outline = self._get_outline()
        return dict(outline.labels or ()) if outline is not None else _string_map(self.tree, "labels")

    def annotations(self) -> dict[str, str]:
        """Return a copy of the annotations.

        Raises:
            MalformedReview: the annotations are not a map of strings.
        """
        outline = self._get_outline()
        return dict(outline.annotations or ()) if outline is not None else _string_map(self.tree, "annotations")

    def containers(self, get_object: Callable[[], dict[str, Any]]) -> list[Container]:
        """Return the containers.

        Args:
            get_object: returns the copy of the object that contains `Container.spec`.

        Raises:
            ValueError: the object is malformed, so that it could hide a container.
        """
        outline = self._get_outline()
        if outline is not None:
            return pods.containers_from_outline(outline.pod, outline.pointer, get_object)
        return pods.find_containers(self.tree, get_object) if self.present else []

    def image_volumes(self) -> list[Image]:
        """Return the images of image volumes.

        Raises:
            ValueError: the object is malformed, so that it could hide a volume.
        """
        outline = self._get_outline()
        volumes = None if outline is None else decode_volumes(outline, self.kind)
        if outline is not None and volumes is not None:
            return pods.image_volumes_from_outline(volumes, outline.pointer)
        return pods.find_image_volumes(self.tree) if self.present else []

    def apply_patch(self, operations: Sequence[Mapping[str, Any]]) -> "LazyObject":
        """Return the object after JSON Patch operations; this object itself if they change nothing.

        Raises:
            PatchError: the operations cannot be applied, or the result is not an object.
            MalformedReview: a part of the object that the operations need is malformed.
        """
        if self._malformed is not None:
            raise self._malformed
        patched = self._patch_outline(operations) or self._patch_partially(operations)
        if patched is not None:
            return patched
        tree = json_patch.apply(self.tree, operations)
        if not isinstance(tree, dict):
            raise PatchError("the result is not an object")
        is_same = tree is self.tree or (tree == self.tree and not json_diff.diff(self.tree, tree))
        return self if is_same else LazyObject.from_tree(tree)

    def _patch_outline(self, operations: Sequence[Mapping[str, Any]]) -> "LazyObject | None":
        """Apply operations that set labels and annotations; None for other operations or without an outline.

        Most patches set a label. To do that in the outline takes a tenth of the time of decoding the object.
        """
        settings = _parse_settings(operations)
        if settings is None:
            return None
        outline = self._get_outline()
        patched = None if outline is None else _set_in_outline(outline, settings)
        if patched is None:
            return None
        return self if patched is outline else self._derive(operations, patched)

    def _patch_partially(self, operations: Sequence[Mapping[str, Any]]) -> "LazyObject | None":
        """Apply operations to only the parts of the object that they need; None if the whole object is needed."""
        if self._tree is not NOT_LOADED or self._patched is not None:
            return None
        tree = decode_partially(self._get_raw(), operations)
        if tree is None:
            return None
        try:
            patched = json_patch.apply(tree, operations)
        except PatchError:
            return None  # the reason may be that a part is missing
        if patched is tree:
            return self
        if not isinstance(patched, dict) or patched == tree:  # equal values may have different types
            return None
        return self._derive(operations, None if affects_outline(self.kind, operations) else NOT_LOADED)

    def _derive(self, operations: Sequence[Mapping[str, Any]], outline: Any) -> "LazyObject":
        """Return the object after operations that can be applied. They are applied when the tree is read.

        Args:
            operations: the operations.
            outline: the outline of the result; None for no outline, `NOT_LOADED` for the outline of this object.
        """
        return LazyObject(b"", kind=self.kind, _outline=outline, _patched=(self, operations))

    def _get_outline(self) -> Outline | None:
        if self._outline is NOT_LOADED:
            self._outline = self._load_outline()
        return self._outline  # type: ignore[no-any-return]

    def _load_outline(self) -> Outline | None:
        if self._patched is not None:
            return self._patched[0]._get_outline()
        typed = self.typed
        if typed is None and self._tree is NOT_LOADED:
            typed = decode_typed(self._get_raw(), self.kind)
        return None if typed is None else build_outline(typed, self.kind)

    def _load(self) -> tuple[Any, bytes | None]:
        if self._patched is None:
            return super()._load()
        before, operations = self._patched
        return json_patch.apply(before.tree, operations), None


NULL = LazyObject(b"null", _tree=None, present=False, _outline=None)
"""The object of a review without one."""


def _parse_settings(operations: Sequence[Mapping[str, Any]]) -> list[_Setting] | None:
    """Return the map, the key (None for the whole map) and the value that each operation sets; else None."""
    settings: list[_Setting] = []
    for operation in operations:
        if type(operation) is not dict or operation.get("op") != "add" or "value" not in operation:
            return None
        path = operation.get("path")
        if type(path) is not str or not path.startswith(_MAP_POINTERS):
            return None  # most other operations stop here, before the path is parsed
        try:
            _, name, *keys = parse_pointer(path)
        except PatchError:
            return None
        if name not in _MAP_NAMES or len(keys) > 1:
            return None
        settings.append((name, keys[0] if keys else None, operation["value"]))
    return settings


def _set_in_outline(outline: Outline, settings: list[_Setting]) -> Outline | None:
    """Return the outline with these labels and annotations; itself if nothing changes, None if it is not possible."""
    maps: dict[str, Any] = {"labels": outline.labels, "annotations": outline.annotations}
    for name, key, value in settings:
        current = maps[name]
        if key is None:
            if type(value) is not dict or not _is_string_map(value):
                return None
            maps[name] = value
        elif type(value) is str and type(current) is dict:
            maps[name] = {**current, key: value}
        else:
            return None
    labels, annotations = maps.values()
    if labels == outline.labels and annotations == outline.annotations:
        return outline
    return Outline(outline.name, outline.generate_name, labels, annotations, outline.pod, outline.pointer)


def _is_string_map(value: Any) -> bool:
    """Check whether a value is a map of strings, null or absent."""
    if type(value) is dict:
        return _STR.issuperset(map(type, value.values()))
    return value is None or value is msgspec.UNSET


def _metadata(tree: Any) -> dict[str, Any]:
    metadata = tree.get("metadata") if tree is not None else None
    if metadata is None:
        return {}
    if type(metadata) is not dict:
        raise MalformedReview("metadata is not an object", code=422)
    return metadata


def _string_map(tree: Any, field: str) -> dict[str, str]:
    value = _metadata(tree).get(field)
    if not _is_string_map(value):
        raise MalformedReview(f"metadata.{field} is not a map of strings", code=422)
    return dict(value or ())
