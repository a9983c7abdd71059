"""The reference of the command line, from the click commands."""

import inspect
import re
from collections.abc import Iterator

import click

from webhooks.cli.main import main

from .markdown import code, prose, table


def sections() -> str:
    """Return a section per command, in alphabetical order."""
    return "\n".join(_section(name, command) for name, command in _commands(main, "webhooks"))


def _commands(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from _commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    parts = [f"## {name}\n", f"```text\n{usage}\n```\n", f"{_paragraphs(command.help or '')}\n"]
    rows = [_row(option, context) for option in command.params if isinstance(option, click.Option)]
    if rows:
        parts.append(table(("option", "value", "default", "description"), rows))
    if command.epilog:
        parts.append(f"{_paragraphs(command.epilog)}\n")
    return "\n".join(parts)


def _paragraphs(text: str) -> str:
    """Return help text as Markdown: a paragraph per line."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text).replace("\b\n", ""))
    return "\n\n".join(prose(" ".join(paragraph.split())).replace("*", "\\*") for paragraph in paragraphs)


def _row(option: click.Option, context: click.Context) -> tuple[str, str, str, str]:
    extra = option.get_help_extra(context)
    value = "" if option.is_flag else option.make_metavar(context)
    names = ", ".join(code(name) for name in sorted(option.opts, key=len, reverse=True))
    return names, _value(option, value, extra.get("range", "")), code(extra.get("default", "")), option.help or ""


def _value(option: click.Option, metavar: str, limits: str) -> str:
    """Return what an option takes: its metavar, its choices or its range."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return ", ".join(code(str(choice)) for choice in option.type.choices)
    if limits and (bounds := re.fullmatch(r"(\d+)<=x<=(\d+)", limits)):
        return f"{int(bounds[1]):,} to {int(bounds[2]):,}"
    return code(metavar)
