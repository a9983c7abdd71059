"""Fields of objects, read as what they must be, so that nothing hides in an object of another shape."""

from collections.abc import Iterator
from typing import Any, TypeVar

from webhooks.errors import MalformedReview

T = TypeVar("T")

_WORDS: dict[Any, str] = {
    bool: "true or false",
    dict: "an object",
    int: "a whole number",
    list: "a list",
    str: "a text",
}


def field(of: Any, path: str, kind: type[T]) -> T | None:
    """A field of an object, or one deeper inside it.

    Args:
        of: the object, or a part of one, such as `Container.spec`.
        path: names joined by dots, such as ``securityContext.privileged``.
        kind: what it must be: bool, int, str, list or dict.

    Returns:
        Its value, as it lies in the object. None where it is absent or null, or anything on the way to it is.

    Raises:
        MalformedReview: it is something else, or something on the way is no object. A policy that lets the error pass
            denies the request, whatever its ``on_error``.
    """
    found = of
    names = path.split(".")
    for depth, name in enumerate(names):
        if found is None:
            return None
        if not isinstance(found, dict):
            raise _error(".".join(names[:depth]) or f"what has the field {path}", dict)
        found = found.get(name)
    if found is None:
        return None
    if not _is(found, kind):
        raise _error(path, kind)
    return found  # type: ignore[no-any-return]


def items(of: Any, path: str, kind: type[T]) -> Iterator[T]:
    """The items of a list in an object.

    Args:
        of: as in `field`, like the next.
        path: where the list is.
        kind: what every item must be.

    Returns:
        They; none where `field` would give None.

    Raises:
        MalformedReview: it is no list, or not one of such items.
    """
    for index, item in enumerate(field(of, path, list) or ()):
        if not _is(item, kind):
            raise _error(f"{path}[{index}]", kind)
        yield item


def _is(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _error(path: str, kind: Any) -> MalformedReview:
    return MalformedReview(f"{path} must be {_WORDS[kind]}", code=422)
