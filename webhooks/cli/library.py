"""What the bundled policies say of themselves: their docstrings, taken apart, as a list and as a page.

A docstring is a line that sums it up, paragraphs that say why, ``Parameters:``, and examples, each below a line such as
``Allowed, with ``name=value``::``. Values hold for the examples that follow too, until another one has a ``with``.
"""

import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webhooks.policy import loader

_HEADING = re.compile(r"(?P<outcome>[A-Z][a-z ]+)(?P<with>, with .+)?::", re.DOTALL)
_PARAMETER = re.compile(r"^    (\w+): ((?:.+(?:\n {8}.+)*))", re.MULTILINE)

_PAGE = """\
# Bundled policies

Use them by name, `webhooks serve --policies library:NAME`; with parameters of your own in a
[configuration](configuration.md), in camel case if so wished; or in a file of policies, by
[`bundled("NAME").bind(...)`](../guides/writing-policies.md#parameters). `webhooks library` lists them,
`webhooks library NAME` shows one.

The examples show what matters of an object, which is a pod where they name no kind. What changes is shown before and
after. Values of parameters hold for the examples below them too, until there are others.
"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a policy: what it is for, and what it is unless given."""

    name: str
    text: str
    default: str


@dataclass(frozen=True, slots=True)
class Example:
    """What a policy makes of something.

    Attributes:
        heading: the line above it.
        outcome: what that line says comes of it, such as ``Allowed``.
        parameters: those that it holds with, as Python writes keyword arguments.
        text: the example itself, YAML.
    """

    heading: str
    outcome: str
    parameters: str
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A bundled policy, as its docstring tells of it."""

    name: str
    kind: str
    summary: str
    about: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    examples: tuple[Example, ...]


def entries() -> list[Entry]:
    """All bundled policies.

    Raises:
        ValueError: a docstring is not as it must be.
        LoadError: a policy does not load.
    """
    return [_entry(path) for path in loader.bundled_files().values()]


def entry(name: str) -> Entry:
    """One bundled policy.

    Raises:
        LoadError: there is none of that name.
    """
    return _entry(loader.bundled_file(name))


def listing(found: Iterable[Entry]) -> str:
    """A line each."""
    rows = [(each.name, each.kind, each.summary) for each in found]
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:2]]
    return "".join(f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {summary}\n" for name, kind, summary in rows)


def text(of: Entry) -> str:
    """All that one says, for a terminal."""
    parts = [f"{of.name} ({of.kind})", of.summary, *of.about]
    if of.parameters:
        lines = [f"    {each.name}: {each.text}\n        Default: {each.default}" for each in of.parameters]
        parts.append("\n".join(["Parameters:", *lines]))
    for each in of.examples:
        parts += [each.heading, _indented(each.text)]
    return "\n\n".join(parts) + "\n"


def page(found: Iterable[Entry]) -> str:
    """All that they say, in Markdown."""
    found = list(found)
    rows = [f"| [{each.name}](#{each.name}) | {each.kind} | {_marked(each.summary)} |" for each in found]
    table = "\n".join(["| policy | kind | what it sees to |", "|---|---|---|", *rows])
    return "\n".join([_PAGE, table, "", "\n".join(map(_section, found))])


def _section(of: Entry) -> str:
    parts = [f"## {of.name}", _marked(of.summary), *map(_marked, of.about)]
    if of.parameters:
        parts.append("\n".join(f"- `{each.name}` (`{each.default}`): {_item(each.text)}" for each in of.parameters))
    for each in of.examples:
        parts += [_marked(each.heading.removesuffix(":")), _indented(each.text)]
    return "\n\n".join(parts) + "\n"


def _indented(example: str) -> str:
    return textwrap.indent(example, "    ")


def _marked(paragraph: str) -> str:
    return paragraph.replace("``", "`")


def _item(paragraph: str) -> str:
    return re.sub(r"\n +", "\n  ", _marked(paragraph))


def _entry(path: Path) -> Entry:
    [policy] = loader.load_file(path)
    _, *parameters = inspect.signature(policy.function).parameters.values()
    defaults = {each.name: _written(each.default) for each in parameters}
    try:
        return _parsed(policy.name, policy.kind, policy.function.__globals__["__doc__"] or "", defaults)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def _parsed(name: str, kind: str, docstring: str, defaults: Mapping[str, str]) -> Entry:
    summary, *paragraphs = docstring.strip().split("\n\n")
    if not summary or "\n" in summary or not summary.endswith("."):
        raise ValueError("a docstring begins with one line that ends with a full stop")
    about: list[str] = []
    parameters: tuple[Parameter, ...] = ()
    examples: list[Example] = []
    for paragraph in paragraphs:
        if paragraph.startswith("Parameters:\n"):
            parameters = _parameters(paragraph, defaults)
        elif paragraph.endswith("::"):
            examples.append(_example(paragraph, examples[-1].parameters if examples else ""))
        elif not paragraph.startswith(" ") and not parameters and not examples:
            about.append(paragraph)
        elif examples and paragraph.startswith("    "):
            last = examples[-1]
            joined = "\n\n".join(filter(None, (last.text, re.sub("^    ", "", paragraph, flags=re.MULTILINE))))
            examples[-1] = Example(last.heading, last.outcome, last.parameters, joined)
        else:
            raise ValueError(f"this stands at the wrong place, or too far in or out: {paragraph!r:.80}")
    return Entry(name, kind, summary, tuple(about), parameters, tuple(examples))


def _parameters(paragraph: str, defaults: Mapping[str, str]) -> tuple[Parameter, ...]:
    found = _PARAMETER.findall(paragraph)
    if len(paragraph) != len("Parameters:") + sum(len(f"\n    {name}: {what}") for name, what in found):
        raise ValueError("parameters are lines such as '    name: what it is', continued eight spaces in")
    unknown = [name for name, _ in found if name not in defaults]
    if unknown:
        raise ValueError(f"there are no parameters {', '.join(unknown)}")
    return tuple(Parameter(name, what, defaults[name]) for name, what in found)


def _example(heading: str, before: str) -> Example:
    said = _HEADING.fullmatch(heading)
    if said is None:
        raise ValueError(f"an example begins as in 'Allowed, with ``name=value``::', not {heading!r:.80}")
    given = before if said["with"] is None else ", ".join(re.findall(r"``(.+?)``", said["with"], re.DOTALL))
    return Example(heading, said["outcome"], given, "")


def _written(default: Any) -> str:
    """A default as configuration writes it."""
    return json.dumps(default, ensure_ascii=False, default=dict)
