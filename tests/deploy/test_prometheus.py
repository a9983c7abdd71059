"""The dashboard and the alerts use the metrics of the server, and the alerts fire when they should."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ..support.builders import Json
from ..support.metric_names import metric_labels

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "cluster-webhooks.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"

_GRAFANA = {"$__rate_interval": "5m", "$job": ".*", "$instance": ".*"}


def panels() -> list[Json]:
    loaded: list[Json] = json.loads(DASHBOARD.read_bytes())["panels"]
    return loaded


def panel_expressions() -> Iterator[tuple[str, str]]:
    """Yield the expressions of the dashboard with the titles of their panels."""
    for panel in panels():
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for variable, value in _GRAFANA.items():
                expression = expression.replace(variable, value)
            yield panel["title"], expression


def rules() -> list[Json]:
    [group] = yaml.safe_load(ALERTS.read_bytes())["groups"]
    loaded: list[Json] = group["rules"]
    return loaded


EXPRESSIONS = [*panel_expressions(), *((rule["alert"], rule["expr"]) for rule in rules())]


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS, ids=lambda text: text[:30])
def test_metrics_and_labels_are_those_of_the_server(title: str, expression: str) -> None:
    labels_by_metric = metric_labels()
    used = re.findall(r"(webhooks_\w+)(?:\{([^}]*)\})?", expression)
    assert used
    for name, matchers in used:
        assert name in labels_by_metric, f"{title}: there is no metric {name}"
        labels = set(re.findall(r"(\w+)=", matchers)) - {"job", "instance"}
        assert labels <= labels_by_metric[name], f"{title}: {name} has no such labels"
    grouped = {label.strip() for labels in re.findall(r"by \(([^)]*)\)", expression) for label in labels.split(",")}
    assert grouped - {"job", "instance"} <= set().union(*(labels_by_metric[name] for name, _ in used))


def test_the_dashboard_shows_all_metrics() -> None:
    all_expressions = " ".join(expression for _, expression in panel_expressions())
    metric_names = {re.sub(r"_(bucket|count|sum)$", "", name) for name in metric_labels()}
    assert {name for name in metric_names if name not in all_expressions} == set()


def test_the_dashboard_is_well_formed() -> None:
    dashboard = json.loads(DASHBOARD.read_bytes())
    assert {variable["name"] for variable in dashboard["templating"]["list"]} == {"datasource", "job", "instance"}
    assert len({panel["id"] for panel in panels()}) == len(panels())
    assert len({panel["title"] for panel in panels()}) == len(panels())
    occupied: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & occupied
        assert all(x < 24 for x, _ in cells)
        occupied |= cells
        if panel["type"] != "row":
            assert panel["description"]
            assert all(target["legendFormat"] for target in panel["targets"])


def test_alerts_have_a_summary_and_a_description() -> None:
    for rule in rules():
        assert rule["labels"].keys() == {"severity"}
        assert rule["annotations"].keys() == {"summary", "description"}


@pytest.fixture(scope="module")
def promtool() -> str:
    path = shutil.which("promtool")
    if path is None:
        pytest.skip("promtool is not on PATH: it comes with Debian's package prometheus")
    return path


def run(*command: Any) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_are_valid(promtool: str) -> None:
    run(promtool, "check", "rules", ALERTS)


def test_alerts_fire_when_they_should(promtool: str) -> None:
    run(promtool, "test", "rules", ALERTS.with_name("alerts_test.yaml"))
    tested = {alert["alertname"] for alert in _tests() if alert.get("exp_alerts")}
    assert tested == {rule["alert"] for rule in rules()}


def _tests() -> Iterator[Json]:
    for test in yaml.safe_load(ALERTS.with_name("alerts_test.yaml").read_bytes())["tests"]:
        yield from test["alert_rule_test"]


def test_expressions_of_the_dashboard_are_valid(promtool: str, tmp_path: Path) -> None:
    recorded = [
        {"record": f"a{number}", "expr": expression} for number, (_, expression) in enumerate(panel_expressions())
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": recorded}]}))
    run(promtool, "check", "rules", file)
