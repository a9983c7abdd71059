"""The metrics of all servers, read from the source code: no server has all of them at once."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "webhooks"
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


@cache
def metric_labels() -> dict[str, set[str]]:
    """Return the labels of each sample by its name in the Prometheus format."""
    trees = [ast.parse(file.read_text()) for file in PACKAGE.rglob("*.py")]
    names = {name: text for tree in trees for name, text in _constants(tree)}
    labels: dict[str, set[str]] = {}
    for tree in trees:
        for call in ast.walk(tree):
            if isinstance(call, ast.Call):
                labels |= {sample: set(_labels(call)) for sample in _samples(call, names)}
    return labels


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the constants of a module whose values are names of metrics."""
    for line in tree.body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
            for target in line.targets:
                if isinstance(target, ast.Name) and str(line.value.value).startswith("webhooks_"):
                    yield target.id, str(line.value.value)


def _samples(call: ast.Call, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the samples of the metric that a call creates, if it creates one."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    for suffix in _SUFFIXES.get(function.lower().removesuffix("metricfamily"), ()):
        match call.args:
            case [ast.Constant(value=str(name)), *_]:
                yield f"{name.removesuffix('_total')}{suffix}"
            case [ast.Name(id=constant), *_] if constant in names:
                yield f"{names[constant].removesuffix('_total')}{suffix}"


def _labels(call: ast.Call) -> Iterator[str]:
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(argument, ast.Tuple):
            yield from (label.value for label in argument.elts if isinstance(label, ast.Constant))  # type: ignore[misc]
    yield "le"  # of histograms
