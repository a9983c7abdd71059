"""Finds the members of a foreign base class that a module of ours uses."""

import ast
from pathlib import Path
from types import ModuleType


def used_members(module: ModuleType, base: object, own: type | None = None) -> set[str]:
    """Return the members of a base class that a module uses by ``self.NAME`` or ``super().NAME``.

    Args:
        module: the module with the subclass.
        base: an instance of the base class.
        own: a class of ours between both, whose own members may be used; None for none.
    """
    tree = ast.parse(Path(module.__file__ or "").read_text())
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_self(node.value)}
    return {name for name in names if hasattr(base, name) and (own is None or name not in vars(own))}


def _is_self(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "super"
    return isinstance(node, ast.Name) and node.id == "self"
