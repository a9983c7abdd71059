"""The table of metrics, from the calls in the code that register them: no server has all of them at once."""

import ast
from collections.abc import Iterator
from pathlib import Path

from .markdown import code, table

PACKAGE = Path(__file__).parents[2] / "webhooks"
_TYPES = ("counter", "gauge", "histogram")


def table_of_metrics() -> str:
    """Return the table of all metrics, sorted by name."""
    return table(("metric", "type", "labels", "meaning"), sorted(set(_rows()), key=lambda row: row[0].strip("`")))


def _rows() -> Iterator[tuple[str, str, str, str]]:
    trees = [ast.parse(file.read_text()) for file in sorted(PACKAGE.rglob("*.py"))]
    constants = {name: value for tree in trees for name, value in _constants(tree)}
    for tree in trees:
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and (kind := _kind(call)):
                yield from _row(call, kind, constants)


def _row(call: ast.Call, kind: str, constants: dict[str, str]) -> Iterator[tuple[str, str, str, str]]:
    match call.args:
        case [first, ast.Constant(value=str(meaning)), *_]:
            name = first.value if isinstance(first, ast.Constant) else constants.get(ast.unparse(first))
            if isinstance(name, str) and name.startswith("webhooks_"):
                suffix = "_total" if kind == "counter" else ""
                labels = ", ".join(map(code, _labels(call)))
                yield code(f"{name.removesuffix('_total')}{suffix}"), kind, labels, meaning


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for line in tree.body:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(value))) if "webhooks_" in value:
                yield name, value


def _kind(call: ast.Call) -> str | None:
    """Return the type of metric that a call registers."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    kind = function.lower().removesuffix("metricfamily")
    return kind if kind in _TYPES else None


def _labels(call: ast.Call) -> Iterator[str]:
    for argument in (*call.args[2:], *(keyword.value for keyword in call.keywords)):
        if isinstance(argument, (ast.Tuple, ast.List)):
            yield from (
                item.value for item in argument.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)
            )
