"""Reports as a table, for people at a terminal."""

import difflib
from collections.abc import Iterator, Sequence
from typing import Protocol

from webhooks.errors import printable
from webhooks.kube.yaml_writer import to_yaml_lines
from webhooks.offline.evaluation import ReportItem, ReviewResult
from webhooks.offline.reports import count
from webhooks.offline.sources import format_location

_HEADINGS = ("PLACE", "KIND", "NAME", "VERDICT", "POLICY", "REASON")
_VERDICT = _HEADINGS.index("VERDICT")
_COLORS = {
    "denied": "red",
    "changed": "cyan",
    "allowed": "green",
    "warning": "yellow",
    "audit": "yellow",
    "exempt": "blue",
}
_DIFF_COLORS = {"+": "green", "-": "red", "@": "cyan"}
_NO_POLICY = "no policy matches it"
_CONTEXT_LINES = 2  # around a change


class Style(Protocol):
    """Adds the escape sequences of a terminal to a text, as `click.style` does."""

    def __call__(self, text: str, *, fg: str | None = None, bold: bool | None = None) -> str:
        """Return the text in a color, or in bold."""


def render_table(items: Sequence[ReportItem], style: Style) -> str:
    """Render a row for each object and each message, and below it a diff of the object if it was changed."""
    results = [item for item in items if isinstance(item, ReviewResult)]
    rows = [list(_build_rows(result)) for result in results]
    cells = [_HEADINGS, *(row for rows_of_result in rows for row in rows_of_result)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    output = [style(_align(_HEADINGS, widths), bold=True)] if results else []
    for result, rows_of_result in zip(results, rows, strict=True):
        output += [_align_in_color(row, widths, style) for row in rows_of_result]
        output += [f"    {line}" for line in _render_diff(result, style)]
    return "\n".join([*output, _summarize(items), ""])


def _build_rows(result: ReviewResult) -> Iterator[tuple[str, ...]]:
    location = format_location(result.manifest.file, result.manifest.line)
    first_cells = tuple(map(printable, (location, result.kind, result.name)))
    rows = [("denied", denial.policy or "-", denial.text) for denial in result.denials]
    if not rows:
        reason = "" if result.policies or result.exemptions else _NO_POLICY
        rows.append((result.verdict, ", ".join(result.changed_by), reason))
    rows += [(type_, message.policy, message.text) for type_, message in result.notes]
    for verdict, policy, text in rows:
        yield *first_cells, verdict, policy, printable(text)
        first_cells = "", "", ""


def _align(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _align_in_color(row: Sequence[str], widths: Sequence[int], style: Style) -> str:
    """Align a row, and color its verdict. The escape sequences do not count as width."""
    last = max(number for number, cell in enumerate(row) if cell)
    cells = [f"{cell:<{width}}" for cell, width in zip(row[:last], widths, strict=False)]
    cells.append(row[last])
    cells[_VERDICT] = style(cells[_VERDICT], fg=_COLORS[row[_VERDICT]])
    return "  ".join(cells)


def _render_diff(result: ReviewResult, style: Style) -> Iterator[str]:
    if not result.patch or result.denials:
        return
    before, after = to_yaml_lines(result.request["object"]), to_yaml_lines(result.final_object)
    for line in list(difflib.unified_diff(before, after, n=_CONTEXT_LINES, lineterm=""))[2:]:
        yield style(line, fg=_DIFF_COLORS[line[0]]) if line[0] in _DIFF_COLORS else line


def _summarize(items: Sequence[ReportItem]) -> str:
    counts = count(items)
    verdicts = [f"{counts[verdict]} {verdict}" for verdict in ("allowed", "changed", "denied")]
    unread = f", {counts['unread']} could not be read" if counts["unread"] else ""
    return f"{counts['reviewed']} reviewed: {', '.join(verdicts)}{unread}"
