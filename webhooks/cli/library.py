"""The command ``webhooks library``: lists and describes the bundled policies."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from webhooks.policy.docstrings import PolicyDoc

_PAGE = """\
# Bundled policies

Use them by name: `webhooks serve --policies library:NAME`. To set parameters, list them in a
[configuration file](configuration.md), where names may be in camel case, or bind them in a policy file:
[`bundled("NAME").bind(...)`](../guides/writing-policies.md#parameters). `webhooks library` lists the policies,
`webhooks library NAME` describes one.

The examples show the relevant fields of an object, by default of a pod. Changes are shown as before and after.
Parameter values also apply to the following examples, until other values are given.
"""


def _complete(_context: click.Context, _parameter: click.Parameter, prefix: str) -> list[str]:
    from webhooks.policy.loader import bundled_files

    return [name for name in bundled_files() if name.startswith(prefix)]


@click.command(epilog="Example: webhooks library required_labels")
@click.argument("name", required=False, shell_complete=_complete)
@click.option("--markdown", is_flag=True, help="Print as Markdown.")
def library(name: str | None, markdown: bool) -> None:
    """List the bundled policies, or describe one.

    Without NAME, all policies are listed.
    """
    from webhooks.policy import docstrings

    policies = docstrings.load_all() if name is None else [docstrings.load(name)]
    if markdown:
        click.echo(format_markdown(policies), nl=False)
    else:
        click.echo(format_list(policies) if name is None else format_text(policies[0]), nl=False)


def format_list(policies: Iterable[PolicyDoc]) -> str:
    """Format policies as a table with one line each."""
    rows = [(policy.name, policy.kind, policy.summary) for policy in policies]
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:2]]
    return "".join(f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {summary}\n" for name, kind, summary in rows)


def format_text(policy: PolicyDoc) -> str:
    """Format the description of a policy for a terminal."""
    parts = [f"{policy.name} ({policy.kind})", policy.summary, *policy.paragraphs]
    if policy.parameters:
        lines = [f"    {item.name}: {item.text}\n        Default: {item.default}" for item in policy.parameters]
        parts.append("\n".join(["Parameters:", *lines]))
    for example in policy.examples:
        parts += [example.heading, _indent_example(example.text)]
    return "\n\n".join(parts) + "\n"


def format_markdown(policies: Iterable[PolicyDoc]) -> str:
    """Format policies as a Markdown page: a table, and a section for each policy."""
    policies = list(policies)
    rows = [
        f"| [{policy.name}](#{policy.name}) | {policy.kind} | {_format_code(policy.summary)} |" for policy in policies
    ]
    table = "\n".join(["| policy | kind | purpose |", "|---|---|---|", *rows])
    return "\n".join([_PAGE, table, "", "\n".join(map(_format_section, policies))])


def _format_section(policy: PolicyDoc) -> str:
    parts = [f"## {policy.name}", _format_code(policy.summary), *map(_format_code, policy.paragraphs)]
    if policy.parameters:
        parts.append(
            "\n".join(f"- `{item.name}` (`{item.default}`): {_format_item(item.text)}" for item in policy.parameters)
        )
    for example in policy.examples:
        parts += [_format_code(example.heading.removesuffix(":")), _indent_example(example.text)]
    return "\n\n".join(parts) + "\n"


def _indent_example(example: str) -> str:
    return textwrap.indent(example, "    ")


def _format_code(paragraph: str) -> str:
    """Replace the markup for code of reStructuredText by that of Markdown."""
    return paragraph.replace("``", "`")


def _format_item(paragraph: str) -> str:
    return re.sub(r"\n +", "\n  ", _format_code(paragraph))
