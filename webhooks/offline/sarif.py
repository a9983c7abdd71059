"""Reports in SARIF 2.1.0, which code hosts display."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from webhooks._version import __version__
from webhooks.offline.evaluation import Message, ReportItem, ReviewResult
from webhooks.offline.sources import Problem

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Mapping[str, Mapping[str, str]] = {
    "denied": {"level": "error"},
    "warning": {"level": "warning"},
    "audit": {"level": "note"},
    "exempt": {"level": "none", "kind": "notApplicable"},
}


def render_sarif(items: Sequence[ReportItem]) -> str:
    """Render a result for each message, and a notification for each problem."""
    messages = [
        (item, type_, message)
        for item in items
        if isinstance(item, ReviewResult)
        for type_, message in [*(("denied", denial) for denial in item.denials), *item.notes]
    ]
    rules = sorted({message.policy for _, _, message in messages if message.policy})
    problems = [item for item in items if isinstance(item, Problem)]
    run = {
        "tool": {"driver": {"name": "webhooks", "version": __version__, "rules": [{"id": rule} for rule in rules]}},
        "invocations": [
            {
                "executionSuccessful": not problems,
                "toolExecutionNotifications": [_build_notification(problem) for problem in problems],
            }
        ],
        "results": [_build_result(result, type_, message, rules) for result, type_, message in messages],
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _build_notification(problem: Problem) -> Mapping[str, Any]:
    location = _build_location(problem.file, problem.line)
    return {"level": "error", "message": {"text": problem.message}, "locations": [location]}


def _build_result(result: ReviewResult, type_: str, message: Message, rules: Sequence[str]) -> Mapping[str, Any]:
    location = _build_location(result.manifest.file, result.manifest.line)
    location["logicalLocations"] = [{"fullyQualifiedName": f"{result.kind} {result.name}", "kind": "resource"}]
    rule = {"ruleId": message.policy, "ruleIndex": rules.index(message.policy)} if message.policy else {}
    text = {"text": f"{result.kind} {result.name}: {message.text}"}
    return {**rule, **_LEVELS[type_], "message": text, "locations": [location]}


def _build_location(file: str, line: int) -> dict[str, Any]:
    region = {"region": {"startLine": line}} if line else {}
    return {"physicalLocation": {"artifactLocation": {"uri": quote(file)}, **region}}
