"""Copy-on-write JSON trees: a policy may change one as if it were a deep copy, but only what it reads is copied.

`copy_on_write` wraps a tree, and `materialize` turns the result into a plain tree. Each container that is read through
a wrapper becomes a wrapper too: a shallow copy that remembers its original (its base). So the original tree is never
exposed and never changes, and a part that was not read is the same object in the result.

Wrappers are dicts and lists whose own storage always holds the current content, so encoders, comparison and pattern
matching work on them. The containers in a dict are wrapped when they are read; those in a list when the list itself is
read, because much code reads the storage of a list without calling its methods. Two limits: code that reads the storage
of a dict directly (``thing.__dict__ = wrapper``, or a C extension) gets the original containers, and
``type(value) is dict`` is false for a wrapper.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from math import isfinite
from typing import Any, NoReturn, Self, SupportsIndex

from webhooks.objects.json_pointer import MAX_DEPTH, pointer

_ABSENT: Any = object()

_read = dict.__getitem__
_read_or = dict.get
_write = dict.__setitem__


class CowDict(dict[str, Any]):
    """A dict in a copy-on-write tree. Calling the class returns a plain dict."""

    __slots__ = ("_all_wrapped", "_base")
    _all_wrapped: bool  # no container of the base is left in the storage
    _base: dict[str, Any]

    # Generic code calls type(value)(...) to create another container of that type; it has no base.
    def __new__(cls, *content: Any, **named: Any) -> dict[str, Any]:  # type: ignore[misc]  # noqa: D102
        return dict(*content, **named)

    def __getitem__(self, key: str) -> Any:
        value = _read(self, key)
        if type(value) in _WRAPPERS and self._base.get(key) is value:
            value = _WRAPPERS[type(value)](value)
            _write(self, key, value)
        return value

    def get(self, key: str, default: Any = None) -> Any:  # noqa: D102
        value = _read_or(self, key, default)
        return self[key] if type(value) in _WRAPPERS and key in self else value

    def setdefault(self, key: str, default: Any = None) -> Any:  # noqa: D102
        dict.setdefault(self, key, default)
        return self[key]

    def pop(self, key: str, *default: Any) -> Any:  # noqa: D102
        return self._wrap_removed(key, dict.pop(self, key, *default))

    def popitem(self) -> tuple[str, Any]:  # noqa: D102
        key, value = dict.popitem(self)
        return key, self._wrap_removed(key, value)

    def values(self) -> Any:  # noqa: D102
        return dict.values(self._wrap_all())

    def items(self) -> Any:  # noqa: D102
        return dict.items(self._wrap_all())

    # Without this method, dict(wrapper), {**wrapper} and update(wrapper) would read the storage directly.
    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self)

    def __or__(self, other: Any) -> Any:
        return dict.__or__(self._wrap_all(), other)

    def copy(self) -> dict[str, Any]:  # noqa: D102
        return dict.copy(self._wrap_all())

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        memo[id(self)] = copy
        for key, value in dict.items(self):
            copy[key] = deepcopy(value, memo)
        return copy

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return dict, (), None, None, iter(self.items())

    def _wrap_removed(self, key: str, value: Any) -> Any:
        return copy_on_write(value) if type(value) in _WRAPPERS and self._base.get(key) is value else value

    def _wrap_all(self) -> Self:
        if not self._all_wrapped:
            for key, value in self._base.items():
                if type(value) in _WRAPPERS and _read_or(self, key) is value:
                    _write(self, key, copy_on_write(value))
            self._all_wrapped = True
        return self


class CowList(list[Any]):
    """A list in a copy-on-write tree. Calling the class returns a plain list."""

    __slots__ = ("_base",)
    _base: list[Any]

    def __new__(cls, *content: Any) -> list[Any]:  # type: ignore[misc]  # noqa: D102
        return list(*content)

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        copy: list[Any] = []
        memo[id(self)] = copy
        copy.extend(deepcopy(value, memo) for value in self)
        return copy

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return list, (), None, iter(self)


def copy_on_write(tree: Any) -> Any:
    """Return a tree that behaves like a private deep copy of this JSON tree.

    The original must not change as long as the result is in use.
    """
    wrap = _WRAPPERS.get(type(tree))
    return tree if wrap is None else wrap(tree)


def _wrap_dict(base: dict[str, Any]) -> CowDict:
    wrapper = dict.__new__(CowDict)
    wrapper.update(base)
    wrapper._base = base
    wrapper._all_wrapped = False
    return wrapper


def _wrap_list(base: list[Any]) -> CowList:
    wrapper = list.__new__(CowList)
    wrapper += [_WRAPPERS[type(value)](value) if type(value) in _WRAPPERS else value for value in base]
    wrapper._base = base
    return wrapper


_WRAPPERS: dict[type, Callable[[Any], Any]] = {dict: _wrap_dict, list: _wrap_list}


def materialize(value: Any) -> Any:
    """Return the plain JSON tree of a value that may contain copy-on-write trees.

    A part that was not read, or is equal to its base, becomes the same object as in the base, so that a later
    comparison with the base is free. Added values are copied: their owner may still change them. Instances of
    subclasses of the JSON types, such as an enum of strings, become instances of those types.

    Raises:
        TypeError: a value is not JSON (RFC 8259): another type, a key that is not a string, a number that is not
            finite or not an int64, a string that is not Unicode, a cycle, or more than `MAX_DEPTH` levels. The message
            has the JSON Pointer of the value.
    """
    return _materialize(value, [])


def _materialize(value: Any, path: list[str | int]) -> Any:
    if isinstance(value, dict):
        return _materialize_dict(value, value._base if type(value) is CowDict else None, path)
    if isinstance(value, list):
        return _materialize_list(value, value._base if type(value) is CowList else None, path)
    return _materialize_scalar(value, path)


def _materialize_dict(value: dict[str, Any], base: dict[str, Any] | None, path: list[str | int]) -> dict[str, Any]:
    _check_depth(path)
    base_children = base or {}
    is_unchanged = base is not None and len(base) == len(value)
    plain: dict[str, Any] = {}
    for key, child in dict.items(value):
        base_child = base_children.get(key, _ABSENT)
        if base_child is _ABSENT or type(key) is not str:
            key = _materialize_key(key, path)
        if child is not base_child:
            child = _materialize_child(key, child, path)
            is_unchanged = is_unchanged and _is_unchanged(child, base_child)
        plain[key] = child
    return base if base is not None and is_unchanged else plain


def _materialize_list(value: list[Any], base: list[Any] | None, path: list[str | int]) -> list[Any]:
    _check_depth(path)
    base_children = base or ()
    is_unchanged = base is not None and len(base) == len(value)
    plain: list[Any] = []
    for index, child in enumerate(list.__iter__(value)):
        base_child = base_children[index] if index < len(base_children) else _ABSENT
        if child is not base_child:
            child = _materialize_child(index, child, path)
            is_unchanged = is_unchanged and _is_unchanged(child, base_child)
        plain.append(child)
    return base if base is not None and is_unchanged else plain


def _materialize_child(token: str | int, child: Any, path: list[str | int]) -> Any:
    path.append(token)
    result = _materialize(child, path)
    path.pop()
    return result


def _is_unchanged(child: Any, base_child: Any) -> bool:
    # Floats do not count: -0.0 equals 0.0.
    return child is base_child or (
        type(child) is type(base_child) and type(child) in (str, int) and bool(child == base_child)
    )


def _materialize_key(key: Any, path: list[str | int]) -> str:
    if not isinstance(key, str):
        _fail(f"the key {key!r:.80} is not a string", path)
    return _materialize_str(key, path)


def _materialize_scalar(value: Any, path: list[str | int]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _materialize_str(value, path)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            _fail("an integer outside the range of int64", path)
        return int.__int__(value)
    if not isinstance(value, float):
        _fail(f"{type(value).__name__} is not JSON", path)
    if not isfinite(value):
        _fail(f"{value!r} is not JSON", path)
    return float.__float__(value)


def _materialize_str(text: str, path: list[str | int]) -> str:
    try:
        str.encode(text)
    except UnicodeEncodeError:
        _fail(f"{text!a:.80} is not Unicode text", path)
    return str.__str__(text)


def _check_depth(path: list[str | int]) -> None:
    if len(path) >= MAX_DEPTH:
        _fail(f"nested deeper than {MAX_DEPTH} levels, or contains itself", path)


def _fail(reason: str, path: list[str | int]) -> NoReturn:
    raise TypeError(f"at {pointer(*path)[:200]!r}: {reason}")
