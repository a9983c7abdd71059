"""Reports for programs, and exit codes."""

import json

import pytest
import yaml

from webhooks.offline.evaluation import Message, ReportItem
from webhooks.offline.reports import FORMATS, count, exit_code, render_json, render_patched, render_yaml
from webhooks.offline.sources import Problem

from ..support.builders import pod
from ..support.reports import CHANGED_POD, report_items, review_result

PROBLEM = Problem("b.yaml", 0, "cannot be read")


@pytest.mark.parametrize(
    ("items", "code"),
    [
        ([], 0),
        ([review_result(warnings=[Message("owner", "deprecated")])], 0),
        ([review_result(), review_result(denials=[Message("owner", "no owner")])], 1),
        ([review_result(denials=[Message("owner", "no owner")]), PROBLEM], 2),
    ],
)
def test_exit_codes(items: list[ReportItem], code: int) -> None:
    assert exit_code(items) == code


def test_counts() -> None:
    assert count(report_items()) == {"reviewed": 3, "allowed": 1, "changed": 1, "denied": 1, "unread": 1}


def test_json_and_yaml_have_the_same_content() -> None:
    report = json.loads(render_json(report_items()))
    assert yaml.safe_load(render_yaml(report_items())) == report
    assert report["summary"]["reviewed"] == 3
    assert report["problems"] == [{"file": "b.yaml", "line": 3, "message": "not YAML: x & y"}]
    allowed, changed, denied = report["reviews"]
    assert (allowed["verdict"], changed["verdict"], denied["verdict"]) == ("allowed", "changed", "denied")
    assert allowed["warnings"] == [{"policy": "owner", "message": "deprecated"}]
    assert allowed["audited"] == [{"policy": "audited", "message": "no <owner>"}]
    assert allowed["exemptions"] == [{"policy": "later", "reason": "moving"}]
    assert allowed["auditAnnotations"] == {"audited.denied": "no <owner>"}
    assert (changed["changedBy"], changed["patch"][0]["op"]) == (["team"], "add")
    assert denied["denials"][0] == {"policy": "owner", "message": "no \x1b[31mowner"}
    assert (denied["file"], denied["line"], denied["namespace"], denied["name"]) == ("a.yaml", 9, "default", "web")


def test_patched_contains_the_allowed_objects() -> None:
    assert list(yaml.safe_load_all(render_patched(report_items()))) == [pod(), CHANGED_POD]


def test_all_formats_render_an_empty_report() -> None:
    assert all(isinstance(render([]), str) for render in FORMATS.values())
