"""Results of `webhooks review` for tests of its reports."""

from typing import Any

from webhooks.offline.evaluation import Message, ReportItem, ReviewResult
from webhooks.offline.sources import Manifest, Problem

from .builders import pod

CHANGED_POD = pod(labels={"team": "a"})


def review_result(file: str = "a.yaml", line: int = 1, **fields: Any) -> ReviewResult:
    """Return the result of the creation of a pod, which is allowed unless the fields say otherwise."""
    request = {
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "default",
        "name": "web",
        "object": pod(),
    }
    defaults = {
        "request": request,
        "policies": ["owner"],
        "denials": [],
        "warnings": [],
        "audited": [],
        "exemptions": [],
        "audit": {},
        "changed_by": [],
        "patch": [],
        "final_object": None if fields.get("denials") else pod(),
    }
    return ReviewResult(manifest=Manifest(file, line, pod()), **{**defaults, **fields})


def report_items() -> list[ReportItem]:
    """Return one item of each sort: allowed with notes, changed, denied, and a problem in another file."""
    return [
        review_result(
            line=1,
            warnings=[Message("owner", "deprecated")],
            audited=[Message("audited", "no <owner>")],
            exemptions=[Message("later", "moving")],
            audit={"audited.denied": "no <owner>"},
        ),
        review_result(
            line=5,
            changed_by=["team"],
            patch=[{"op": "add", "path": "/metadata/labels", "value": {"team": "a"}}],
            final_object=CHANGED_POD,
        ),
        review_result(line=9, denials=[Message("owner", "no \x1b[31mowner"), Message("", "malformed review: x")]),
        Problem("b.yaml", 3, "not YAML: x & y"),
    ]
