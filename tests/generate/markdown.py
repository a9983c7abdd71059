"""Markdown for the generated pages."""

import re
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table, ending with a newline."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def code(text: str) -> str:
    """Format text as inline code; nothing for an empty text."""
    return f"`{text}`" if text else ""


def prose(docstring: str) -> str:
    """Convert inline markup of docstrings: double backticks, and references in single ones."""
    return re.sub(r"``(.+?)``", r"`\1`", docstring, flags=re.DOTALL)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")
