"""Reports in SARIF."""

import json
from typing import Any

from webhooks.offline.sarif import render_sarif

from ..support.reports import report_items, review_result


def render(*items: Any) -> dict[str, Any]:
    [run] = json.loads(render_sarif(items))["runs"]
    return run  # type: ignore[no-any-return]


def test_results() -> None:
    run = render(*report_items())
    assert [(result.get("ruleId"), result["level"]) for result in run["results"]] == [
        ("owner", "warning"),
        ("audited", "note"),
        ("later", "none"),
        ("owner", "error"),
        (None, "error"),
    ]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert "ruleId" not in result or rules[result["ruleIndex"]]["id"] == result["ruleId"]
    [location] = run["results"][3]["locations"]
    assert location["physicalLocation"] == {"artifactLocation": {"uri": "a.yaml"}, "region": {"startLine": 9}}
    assert location["logicalLocations"] == [{"fullyQualifiedName": "Pod default/web", "kind": "resource"}]
    assert run["results"][2]["kind"] == "notApplicable"


def test_problems_are_notifications() -> None:
    [invocation] = render(*report_items())["invocations"]
    assert invocation["executionSuccessful"] is False
    [notification] = invocation["toolExecutionNotifications"]
    assert (notification["level"], notification["message"]["text"]) == ("error", "not YAML: x & y")


def test_a_report_without_messages() -> None:
    run = render(review_result(file="a b.yaml"))
    assert (run["results"], run["invocations"][0]["executionSuccessful"]) == ([], True)
