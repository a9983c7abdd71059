"""The metrics that a server can have, as Prometheus reads them: found in the code, since no server has all at once."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "webhooks"
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


@cache
def metrics() -> dict[str, set[str]]:
    """The labels of each sample, by its name."""
    found: dict[str, set[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call):
                found |= {name: set(_labels(call)) for name in _samples(call)}
    return found


def _samples(call: ast.Call) -> Iterator[str]:
    """The names of the samples of a metric, if it is one that is made by a call."""
    maker = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    for suffix in _SUFFIXES.get(maker.lower().removesuffix("metricfamily"), ()):
        if call.args and isinstance(call.args[0], ast.Constant):
            yield f"{call.args[0].value.removesuffix('_total')}{suffix}"  # type: ignore[union-attr]


def _labels(call: ast.Call) -> Iterator[str]:
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(argument, ast.Tuple):
            yield from (each.value for each in argument.elts if isinstance(each, ast.Constant))  # type: ignore[misc]
    yield "le"  # of histograms
