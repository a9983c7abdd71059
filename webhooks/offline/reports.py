"""Reports for programs, by format, and the exit code."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from webhooks.kube.yaml_writer import to_yaml
from webhooks.offline.evaluation import Message, ReportItem, ReviewResult
from webhooks.offline.junit import render_junit
from webhooks.offline.requests import remove_default_namespace
from webhooks.offline.sarif import render_sarif
from webhooks.offline.sources import Problem


def exit_code(items: Sequence[ReportItem]) -> int:
    """Return 0 if all objects are allowed, 1 if one is denied, 2 if there is a problem."""
    if any(isinstance(item, Problem) for item in items):
        return 2
    return int(any(isinstance(item, ReviewResult) and item.denials for item in items))


def count(items: Sequence[ReportItem]) -> Mapping[str, int]:
    """Count the objects that were reviewed, by their verdicts, and the problems (``unread``)."""
    counts = Counter(item.verdict if isinstance(item, ReviewResult) else "unread" for item in items)
    all_counts = {word: counts[word] for word in ("allowed", "changed", "denied", "unread")}
    return {"reviewed": len(items) - counts["unread"], **all_counts}


def render_json(items: Sequence[ReportItem]) -> str:
    """Render a report as JSON."""
    return json.dumps(_to_dict(items), indent=2, ensure_ascii=False) + "\n"


def render_yaml(items: Sequence[ReportItem]) -> str:
    """Render the same report as YAML."""
    return to_yaml(_to_dict(items))


def render_patched(items: Sequence[ReportItem]) -> str:
    """Render the objects that are allowed, with all changes, as a stream of YAML documents."""
    results = [item for item in items if isinstance(item, ReviewResult) and item.final_object is not None]
    objects = [remove_default_namespace(result.manifest, result.final_object) for result in results]
    return "".join(f"---\n{to_yaml(object_)}" for object_ in objects)


def _to_dict(items: Sequence[ReportItem]) -> dict[str, Any]:
    return {
        "summary": count(items),
        "reviews": [_result_to_dict(item) for item in items if isinstance(item, ReviewResult)],
        "problems": [
            {"file": item.file, "line": item.line, "message": item.message}
            for item in items
            if isinstance(item, Problem)
        ],
    }


def _result_to_dict(result: ReviewResult) -> dict[str, Any]:
    request = result.request
    return {
        "file": result.manifest.file,
        "line": result.manifest.line,
        "kind": result.kind,
        "namespace": request.get("namespace") or "",
        "name": request.get("name") or "",
        "operation": request["operation"],
        "verdict": result.verdict,
        "policies": list(result.policies),
        "denials": _messages_to_dicts(result.denials, "message"),
        "warnings": _messages_to_dicts(result.warnings, "message"),
        "audited": _messages_to_dicts(result.audited, "message"),
        "exemptions": _messages_to_dicts(result.exemptions, "reason"),
        "auditAnnotations": dict(result.audit),
        "changedBy": list(result.changed_by),
        "patch": list(result.patch),
    }


def _messages_to_dicts(messages: Sequence[Message], key: str) -> list[dict[str, str]]:
    return [{"policy": message.policy, key: message.text} for message in messages]


FORMATS: Mapping[str, Callable[[Sequence[ReportItem]], str]] = {
    "json": render_json,
    "yaml": render_yaml,
    "junit": render_junit,
    "sarif": render_sarif,
    "patched": render_patched,
}
