"""Public names of a package that are imported when they are first used, so that the package itself imports fast."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    namespace: dict[str, Any], exports: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    Type checkers do not see these names: import them under ``TYPE_CHECKING`` as well.

    Args:
        namespace: the ``globals()`` of the package.
        exports: for each public name its module, or ``module:name`` if it has another name there.
    """
    package = namespace["__name__"]

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = exports[name].partition(":")
        value = namespace[name] = getattr(import_module(module), attribute or name)
        return value

    def __dir__() -> list[str]:  # noqa: N807
        return sorted({*namespace, *exports})

    return list(exports), __getattr__, __dir__
