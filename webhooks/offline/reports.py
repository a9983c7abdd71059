"""What was found, for people and for tools: each format takes all that was found, and gives a text."""

import difflib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import click

from webhooks.kube.yaml_writer import lines, written
from webhooks.offline.evaluation import ReviewResult
from webhooks.offline.requests import unplaced
from webhooks.offline.sarif import junit, sarif
from webhooks.offline.sources import Problem, place

Outcomes: TypeAlias = Sequence[ReviewResult | Problem]

_HEADINGS = ("PLACE", "KIND", "NAME", "VERDICT", "POLICY", "REASON")
_COLOURS = {
    "denied": "red",
    "changed": "cyan",
    "allowed": "green",
    "warning": "yellow",
    "audit": "yellow",
    "exempt": "blue",
}
_LINE_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_UNASKED = "no policy asks about it"
_CONTEXT = 2  # lines around a change


def exit_code(found: Outcomes) -> int:
    """0 where all is allowed, 1 where something is denied, 2 where something could not be read."""
    if any(isinstance(each, Problem) for each in found):
        return 2
    return int(any(isinstance(each, ReviewResult) and each.denials for each in found))


def table(found: Outcomes) -> str:
    """A row for each object and for what was said of it; below, the lines that changed. Coloured, for terminals."""
    reviewed = [each for each in found if isinstance(each, ReviewResult)]
    blocks = [(list(_rows(each)), each) for each in reviewed]
    cells = [_HEADINGS, *(row for rows, _ in blocks for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    text = [click.style(_aligned(_HEADINGS, widths), bold=True)] if reviewed else []
    for rows, each in blocks:
        text += [_aligned(row, widths, _COLOURS[row[3]]) for row in rows]
        text += [f"    {line}" for line in _diff(each)]
    return "\n".join([*text, _summary(found), ""])


def _rows(of: ReviewResult) -> Iterator[tuple[str, ...]]:
    head = tuple(map(printable, (place(of.manifest.file, of.manifest.line), of.kind, of.name)))
    rows = [("denied", each.policy, each.text) for each in of.denials]
    rows = rows or [(of.verdict, ", ".join(of.changed_by), "" if of.asked or of.exempted else _UNASKED)]
    rows += [(word, each.policy, each.text) for word, each in of.asides]
    for verdict, policy, text in rows:
        yield *head, verdict, policy or "-" * (verdict == "denied"), printable(text)
        head = "", "", ""


def _aligned(row: Sequence[str], widths: Sequence[int], colour: str | None = None) -> str:
    cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
    end = len("  ".join(cells).rstrip())
    if colour is None:
        return "  ".join(cells)[:end]
    last = max(number for number, cell in enumerate(row) if cell)
    cells = [*cells[:last], row[last]]
    cells[3] = click.style(cells[3], fg=colour)
    return "  ".join(cells)


def _diff(of: ReviewResult) -> Iterator[str]:
    if not of.patch or of.denials:
        return
    before, after = lines(of.request["object"]), lines(of.result)
    for line in list(difflib.unified_diff(before, after, n=_CONTEXT, lineterm=""))[2:]:
        yield click.style(line, fg=_LINE_COLOURS[line[0]]) if line[0] in _LINE_COLOURS else line


def _summary(found: Outcomes) -> str:
    numbers = counts(found)
    parts = [f"{numbers[word]} {word}" for word in ("allowed", "changed", "denied")]
    unread = f", {numbers['unread']} could not be read" if numbers["unread"] else ""
    return f"{numbers['reviewed']} reviewed: {', '.join(parts)}{unread}"


def counts(found: Outcomes) -> Mapping[str, int]:
    """How many were reviewed, allowed as they are, changed, denied, and could not be read."""
    words = Counter(each.verdict if isinstance(each, ReviewResult) else "unread" for each in found)
    numbers = {word: words[word] for word in ("allowed", "changed", "denied", "unread")}
    return {"reviewed": len(found) - numbers["unread"], **numbers}


def printable(text: str) -> str:
    """A text without what would move a terminal's cursor; on one line."""
    shown = text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return shown.strip()


def plain(found: Outcomes) -> dict[str, Any]:
    """All that was found, as plain values."""
    return {
        "summary": counts(found),
        "reviews": [_plain(each) for each in found if isinstance(each, ReviewResult)],
        "problems": [
            {"file": each.file, "line": each.line, "message": each.what} for each in found if isinstance(each, Problem)
        ],
    }


def _plain(of: ReviewResult) -> dict[str, Any]:
    request = of.request
    return {
        "file": of.manifest.file,
        "line": of.manifest.line,
        "kind": of.kind,
        "namespace": request.get("namespace") or "",
        "name": request.get("name") or "",
        "operation": request["operation"],
        "verdict": of.verdict,
        "asked": list(of.asked),
        "denials": [{"policy": each.policy, "message": each.text} for each in of.denials],
        "warnings": [{"policy": each.policy, "message": each.text} for each in of.warnings],
        "audited": [{"policy": each.policy, "message": each.text} for each in of.audited],
        "exemptions": [{"policy": each.policy, "reason": each.text} for each in of.exempted],
        "auditAnnotations": dict(of.audit),
        "changedBy": list(of.changed_by),
        "patch": list(of.patch),
    }


def patched(found: Outcomes) -> str:
    """The objects that are allowed, as they would be stored: a stream of YAML."""
    allowed = [each for each in found if isinstance(each, ReviewResult) and each.result is not None]
    return "".join(f"---\n{written(unplaced(each.manifest, each.result))}" for each in allowed)


FORMATS: Mapping[str, Callable[[Outcomes], str]] = {
    "table": table,
    "json": lambda found: json.dumps(plain(found), indent=2, ensure_ascii=False) + "\n",
    "yaml": lambda found: written(plain(found)),
    "junit": junit,
    "sarif": sarif,
    "patched": patched,
}
