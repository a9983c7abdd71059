"""Documentation of the bundled policies, parsed from their docstrings.

A docstring has a summary line, paragraphs, ``Parameters:``, and examples. Each example has a heading such as
``Allowed, with ``name=value``::``. Parameter values also apply to the following examples, until the next ``with``.
"""

import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from webhooks.policy import loader

_HEADING = re.compile(r"(?P<outcome>[A-Z][a-z ]+)(?P<with>, with .+)?::", re.DOTALL)
_PARAMETER = re.compile(r"^    (\w+): ((?:.+(?:\n {8}.+)*))", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a policy.

    Attributes:
        name: its name.
        text: its description.
        default: its default value, as in a configuration file.
    """

    name: str
    text: str
    default: str


@dataclass(frozen=True, slots=True)
class Example:
    """An example of a review and its outcome.

    Attributes:
        heading: the line above the example.
        outcome: the outcome in the heading, such as ``Allowed``.
        parameters: the parameters that apply, as keyword arguments in Python.
        text: the example itself (YAML).
    """

    heading: str
    outcome: str
    parameters: str
    text: str


@dataclass(frozen=True, slots=True)
class PolicyDoc:
    """The documentation of a policy."""

    name: str
    kind: str
    summary: str
    paragraphs: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    examples: tuple[Example, ...]


def load_all() -> list[PolicyDoc]:
    """Load the documentation of all bundled policies.

    Raises:
        ValueError: a docstring is malformed.
        LoadError: a policy cannot be loaded.
    """
    return [_load(path) for path in loader.bundled_files().values()]


def load(name: str) -> PolicyDoc:
    """Load the documentation of one bundled policy.

    Raises:
        LoadError: there is no such policy.
    """
    return _load(loader.bundled_file(name))


def _load(path: Path) -> PolicyDoc:
    [policy] = loader.load_file(path)
    _, *parameters = inspect.signature(policy.function).parameters.values()
    defaults = {parameter.name: _to_json(parameter.default) for parameter in parameters}
    try:
        return _parse(policy.name, policy.kind, policy.function.__globals__["__doc__"] or "", defaults)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def _parse(name: str, kind: str, docstring: str, defaults: Mapping[str, str]) -> PolicyDoc:
    summary, *paragraphs = docstring.strip().split("\n\n")
    if not summary or "\n" in summary or not summary.endswith("."):
        raise ValueError("a docstring must begin with a summary on one line that ends with a full stop")
    description: list[str] = []
    parameters: tuple[Parameter, ...] = ()
    examples: list[Example] = []
    for paragraph in paragraphs:
        if paragraph.startswith("Parameters:\n"):
            parameters = _parse_parameters(paragraph, defaults)
        elif paragraph.endswith("::"):
            examples.append(_parse_heading(paragraph, examples[-1].parameters if examples else ""))
        elif not paragraph.startswith(" ") and not parameters and not examples:
            description.append(paragraph)
        elif examples and paragraph.startswith("    "):
            text = re.sub("^    ", "", paragraph, flags=re.MULTILINE)
            examples[-1] = replace(examples[-1], text="\n\n".join(filter(None, (examples[-1].text, text))))
        else:
            raise ValueError(f"a paragraph is misplaced or has the wrong indentation: {paragraph!r:.80}")
    return PolicyDoc(name, kind, summary, tuple(description), parameters, tuple(examples))


def _parse_parameters(paragraph: str, defaults: Mapping[str, str]) -> tuple[Parameter, ...]:
    parameters = _PARAMETER.findall(paragraph)
    if len(paragraph) != len("Parameters:") + sum(len(f"\n    {name}: {text}") for name, text in parameters):
        raise ValueError("parameters must be lines such as '    name: text', continued with eight spaces")
    unknown = [name for name, _ in parameters if name not in defaults]
    if unknown:
        raise ValueError(f"unknown parameters: {', '.join(unknown)}")
    return tuple(Parameter(name, text, defaults[name]) for name, text in parameters)


def _parse_heading(heading: str, previous_parameters: str) -> Example:
    match = _HEADING.fullmatch(heading)
    if match is None:
        raise ValueError(f"an example must begin with a heading such as 'Allowed, with ``a=1``::', not {heading!r:.80}")
    parameters = previous_parameters
    if match["with"] is not None:
        parameters = ", ".join(re.findall(r"``(.+?)``", match["with"], re.DOTALL))
    return Example(heading, match["outcome"], parameters, "")


def _to_json(default: Any) -> str:
    return json.dumps(default, ensure_ascii=False, default=dict)
