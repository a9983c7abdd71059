"""Drafts: a tree that its reader may change as if it were a deep copy, at the price of what is reached.

`draft` makes one, `settle` turns what became of it into a plain tree. This is copy-on-read: each container
that is read through a draft becomes a draft as well, a shallow copy that remembers what it was copied from
(its base). So the tree underneath is never handed out and never changes, and what nobody reached is the same
object before and after.

Drafts are dicts and lists whose own storage always holds the present content, so encoders, comparison and
pattern matching see them as such. A dict's containers become drafts when they are read; a list's when the
list itself is reached, because much of what takes lists reads their storage past every method. The same done
to a dict is out of reach: `thing.__dict__ = draft`, or a C extension that takes a dict's storage apart, gets
what is underneath. And code that asks for exactly `dict` (`type(value) is dict`) does not see one in a draft.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from math import isfinite
from typing import Any, NoReturn, Self, SupportsIndex

from webhooks.objects.json_patch import MAX_DEPTH, pointer

_ABSENT: Any = object()

_read = dict.__getitem__
_read_or = dict.get
_write = dict.__setitem__


class DraftDict(dict[str, Any]):
    """A dict reached through `draft`, for its reader alone; calling the class gives what `dict` gives."""

    __slots__ = ("_base", "_reached")
    _base: dict[str, Any]
    _reached: bool  # no container of the base is left in the storage

    # Generic code writes type(value)(...) for "another of these", and that one has no base.
    def __new__(cls, *content: Any, **named: Any) -> dict[str, Any]:  # type: ignore[misc]  # noqa: D102
        return dict(*content, **named)

    def __getitem__(self, key: str) -> Any:
        value = _read(self, key)
        if type(value) in _MAKERS and self._base.get(key) is value:
            value = _MAKERS[type(value)](value)
            _write(self, key, value)
        return value

    def get(self, key: str, default: Any = None) -> Any:  # noqa: D102
        value = _read_or(self, key, default)
        return self[key] if type(value) in _MAKERS and key in self else value

    def setdefault(self, key: str, default: Any = None) -> Any:  # noqa: D102
        dict.setdefault(self, key, default)
        return self[key]

    def pop(self, key: str, *default: Any) -> Any:  # noqa: D102
        return self._own(key, dict.pop(self, key, *default))

    def popitem(self) -> tuple[str, Any]:  # noqa: D102
        key, value = dict.popitem(self)
        return key, self._own(key, value)

    def values(self) -> Any:  # noqa: D102
        return dict.values(self._reach())

    def items(self) -> Any:  # noqa: D102
        return dict.items(self._reach())

    # Its mere existence keeps dict(draft), {**draft} and update(draft) from reading the storage themselves.
    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self)

    def __or__(self, other: Any) -> Any:
        return dict.__or__(self._reach(), other)

    def copy(self) -> dict[str, Any]:  # noqa: D102
        return dict.copy(self._reach())

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        fresh: dict[str, Any] = {}
        memo[id(self)] = fresh
        for key, value in dict.items(self):
            fresh[key] = deepcopy(value, memo)
        return fresh

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return dict, (), None, None, iter(self.items())

    def _own(self, key: str, value: Any) -> Any:
        return draft(value) if type(value) in _MAKERS and self._base.get(key) is value else value

    def _reach(self) -> Self:
        if not self._reached:
            for key, value in self._base.items():
                if type(value) in _MAKERS and _read_or(self, key) is value:
                    _write(self, key, draft(value))
            self._reached = True
        return self


class DraftList(list[Any]):
    """A list reached through `draft`, for its reader alone; calling the class gives what `list` gives."""

    __slots__ = ("_base",)
    _base: list[Any]

    def __new__(cls, *content: Any) -> list[Any]:  # type: ignore[misc]  # noqa: D102
        return list(*content)

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        fresh: list[Any] = []
        memo[id(self)] = fresh
        fresh.extend(deepcopy(value, memo) for value in self)
        return fresh

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return list, (), None, iter(self)


def draft(tree: Any) -> Any:
    """What looks and behaves as a private deep copy of this JSON tree, and never changes it.

    The tree itself must stay as it is while the draft is in use.
    """
    make = _MAKERS.get(type(tree))
    return tree if make is None else make(tree)


def _draft_dict(base: dict[str, Any]) -> DraftDict:
    fresh = dict.__new__(DraftDict)
    fresh.update(base)
    fresh._base = base
    fresh._reached = False
    return fresh


def _draft_list(base: list[Any]) -> DraftList:
    fresh = list.__new__(DraftList)
    fresh += [_MAKERS[type(value)](value) if type(value) in _MAKERS else value for value in base]
    fresh._base = base
    return fresh


_MAKERS: dict[type, Callable[[Any], Any]] = {dict: _draft_dict, list: _draft_list}


def settle(value: Any) -> Any:
    """The plain JSON tree that a draft, or anything built with drafts in it, has become.

    What was not reached is the same object as in the base, and so is every draft that holds what its base
    holds; that makes a later comparison with the base free. What the author put in is copied: the original
    stays theirs to change. Subclasses of the JSON types (an enumeration of strings, say) become those types.

    Raises:
        TypeError: something in there is not JSON (RFC 8259): another type, a key that is no string, a number
            that is not finite or no int64, text that is no Unicode, a cycle, or more than `MAX_DEPTH` levels. The
            message has its JSON pointer.
    """
    return _settled(value, [])


def _settled(value: Any, trail: list[str | int]) -> Any:
    if isinstance(value, dict):
        return _settled_dict(value, value._base if type(value) is DraftDict else None, trail)
    if isinstance(value, list):
        return _settled_list(value, value._base if type(value) is DraftList else None, trail)
    return _settled_scalar(value, trail)


def _settled_dict(value: dict[str, Any], base: dict[str, Any] | None, trail: list[str | int]) -> dict[str, Any]:
    _refuse_depth(trail)
    known = base or {}
    same = base is not None and len(base) == len(value)
    plain: dict[str, Any] = {}
    for key, child in dict.items(value):
        was = known.get(key, _ABSENT)
        if was is _ABSENT or type(key) is not str:
            key = _settled_key(key, trail)
        if child is not was:
            child = _settled_child(key, child, trail)
            same = same and _unchanged(child, was)
        plain[key] = child
    return base if base is not None and same else plain


def _settled_list(value: list[Any], base: list[Any] | None, trail: list[str | int]) -> list[Any]:
    _refuse_depth(trail)
    known = base or ()
    same = base is not None and len(base) == len(value)
    plain: list[Any] = []
    for index, child in enumerate(list.__iter__(value)):
        was = known[index] if index < len(known) else _ABSENT
        if child is not was:
            child = _settled_child(index, child, trail)
            same = same and _unchanged(child, was)
        plain.append(child)
    return base if base is not None and same else plain


def _settled_child(token: str | int, child: Any, trail: list[str | int]) -> Any:
    trail.append(token)
    settled = _settled(child, trail)
    trail.pop()
    return settled


def _unchanged(child: Any, was: Any) -> bool:
    # Not floats: -0.0 equals 0.0.
    return child is was or (type(child) is type(was) and type(child) in (str, int) and bool(child == was))


def _settled_key(key: Any, trail: list[str | int]) -> str:
    if not isinstance(key, str):
        _refuse(f"the key {key!r:.80} is not a string", trail)
    return _settled_text(key, trail)


def _settled_scalar(value: Any, trail: list[str | int]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _settled_text(value, trail)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            _refuse("an integer outside the range of int64", trail)
        return int.__int__(value)
    if not isinstance(value, float):
        _refuse(f"{type(value).__name__} is not JSON", trail)
    if not isfinite(value):
        _refuse(f"{value!r} is not JSON", trail)
    return float.__float__(value)


def _settled_text(text: str, trail: list[str | int]) -> str:
    try:
        str.encode(text)
    except UnicodeEncodeError:
        _refuse(f"{text!a:.80} is not Unicode text", trail)
    return str.__str__(text)


def _refuse_depth(trail: list[str | int]) -> None:
    if len(trail) >= MAX_DEPTH:
        _refuse(f"nested more than {MAX_DEPTH} levels deep, or within itself", trail)


def _refuse(reason: str, trail: list[str | int]) -> NoReturn:
    raise TypeError(f"at {pointer(*trail)[:200]!r}: {reason}")
