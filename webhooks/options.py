"""Settings that say of themselves what they are: flags, variables and files are made of that, and cannot differ."""

from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, get_args


@dataclass(frozen=True)
class Option:
    """What there is to know of a setting beside its type and default. A float is a duration in seconds.

    Attributes:
        about: what it is for.
        least: the least value; None for no such.
        most: the greatest.
        folder: whether a path is one of a folder, and not of a file.
        metavar: what a value is called in the help; empty for the name of its type.
        bare: the value of a flag that is given without one; None where it has to have one.
    """

    about: str
    least: Any = None
    most: Any = None
    folder: bool = False
    metavar: str = ""
    bare: Any = None


def option(
    default: Any,
    about: str,
    *,
    least: float | None = None,
    most: float | None = None,
    folder: bool = False,
    metavar: str = "",
    bare: Any = None,
) -> Any:
    """A field of a dataclass that is such a setting."""
    return field(default=default, metadata={"option": Option(about, least, most, folder, metavar, bare)})


def options(settings: type) -> Iterator[tuple[Field[Any], Option]]:
    """The settings of a dataclass, in order; of those that are dataclasses themselves nothing."""
    for each in fields(settings):
        if each.default is not MISSING:
            yield each, each.metadata["option"]


def given(hint: Any) -> Any:
    """The type that a setting has where it is given: without None."""
    if not isinstance(hint, UnionType):
        return hint
    [only] = [each for each in get_args(hint) if each is not NoneType]
    return only
