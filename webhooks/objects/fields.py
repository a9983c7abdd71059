"""Reads fields of objects with a type check, so that a malformed object cannot hide a value from a policy."""

from collections.abc import Iterator
from typing import Any, TypeVar

from webhooks.errors import MalformedReview

T = TypeVar("T")

_TYPE_NAMES: dict[Any, str] = {
    bool: "true or false",
    dict: "an object",
    int: "an integer",
    list: "a list",
    str: "a string",
}


def field(of: Any, path: str, kind: type[T]) -> T | None:
    """Return a field of an object.

    Args:
        of: the object, or a part of one, such as `Container.spec`.
        path: names joined by dots, such as ``securityContext.privileged``.
        kind: the required type: bool, int, str, list or dict.

    Returns:
        The value itself, not a copy. None if the field or one of its parents is absent or null.

    Raises:
        MalformedReview: the value has another type, or a parent is not an object. If a policy does not catch the error,
            the request is denied, whatever the ``on_error`` of the policy.
    """
    value = of
    names = path.split(".")
    for depth, name in enumerate(names):
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _error(".".join(names[:depth]) or f"the parent of {path}", dict)
        value = value.get(name)
    if value is None:
        return None
    if not _has_type(value, kind):
        raise _error(path, kind)
    return value  # type: ignore[no-any-return]


def items(of: Any, path: str, kind: type[T]) -> Iterator[T]:
    """Iterate over the items of a list in an object.

    Args:
        of: see `field`.
        path: the path of the list; see `field`.
        kind: the required type of each item.

    Returns:
        The items. There are none if the list or one of its parents is absent or null.

    Raises:
        MalformedReview: the value is not a list, or an item has another type.
    """
    for index, item in enumerate(field(of, path, list) or ()):
        if not _has_type(item, kind):
            raise _error(f"{path}[{index}]", kind)
        yield item


def _has_type(value: object, kind: Any) -> bool:
    """Check the type of a value. A bool is not an int, although it is one in Python."""
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _error(path: str, kind: Any) -> MalformedReview:
    return MalformedReview(f"{path} must be {_TYPE_NAMES[kind]}", code=422)
