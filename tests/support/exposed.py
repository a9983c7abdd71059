"""The metrics that a server can have, as Prometheus reads them: found in the code, since no server has all at once."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "webhooks"
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


@cache
def metrics() -> dict[str, set[str]]:
    """The labels of each sample, by its name."""
    trees = [ast.parse(file.read_text()) for file in PACKAGE.rglob("*.py")]
    names = {name: text for tree in trees for name, text in _constants(tree)}
    found: dict[str, set[str]] = {}
    for tree in trees:
        for call in ast.walk(tree):
            if isinstance(call, ast.Call):
                found |= {sample: set(_labels(call)) for sample in _samples(call, names)}
    return found


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that a module has for metrics."""
    for line in tree.body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
            for target in line.targets:
                if isinstance(target, ast.Name) and str(line.value.value).startswith("webhooks_"):
                    yield target.id, str(line.value.value)


def _samples(call: ast.Call, names: Mapping[str, str]) -> Iterator[str]:
    """The names of the samples of a metric, if it is one that is made by a call."""
    maker = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    for suffix in _SUFFIXES.get(maker.lower().removesuffix("metricfamily"), ()):
        match call.args:
            case [ast.Constant(value=str(name)), *_]:
                yield f"{name.removesuffix('_total')}{suffix}"
            case [ast.Name(id=constant), *_] if constant in names:
                yield f"{names[constant].removesuffix('_total')}{suffix}"


def _labels(call: ast.Call) -> Iterator[str]:
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(argument, ast.Tuple):
            yield from (each.value for each in argument.elts if isinstance(each, ast.Constant))  # type: ignore[misc]
    yield "le"  # of histograms
