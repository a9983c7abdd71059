"""``webhooks review`` on the command line."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner, Result

from webhooks.cli.main import main
from webhooks.cli.offline_review import FORMATS
from webhooks.cli.review import review as command

PAGE = Path(__file__).parent.parent.parent / "docs" / "guides" / "offline-review.md"
POLICIES = """
from webhooks import AdmissionReview, Allow, Decision, Deny, Mutation, Replace, mutating, validating

@validating("pods", operations=["*"])
def owner(review: AdmissionReview) -> Decision:
    if "owner" in review.labels:
        return Allow(warnings=["owners move to annotations"])
    return Deny("no owner, no <pod> & no \\x1b[31mred")

@mutating("configmaps")
def team(review: AdmissionReview) -> Mutation:
    review.object["metadata"]["labels"] = {"team": review.groups[0]}
    return Replace(review.object)
"""
MANIFESTS = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data: {a: "1"}
---
a: b: c
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: team-a, labels: {owner: jane}}
"""


CONFIGURATION = """\
apiVersion: webhooks.svc.io/v1alpha1
kind: WebhookConfiguration
policies:
  - {use: policies.py:owner, mode: warn}
  - {use: policies.py:owner, name: audited, mode: audit, match: {resources: [pods]}}
  - {use: policies.py:owner, name: later, match: {namespaces: [default]}, exemptions: [{names: [web], reason: moving}]}
  - {use: policies.py:team, exemptions: [{namespaces: [default], reason: of no team}]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies.py").write_text(POLICIES)
    (tmp_path / "all.yaml").write_text(MANIFESTS)
    (tmp_path / "good.yaml").write_text(MANIFESTS.split("---\n")[3])
    (tmp_path / "bad.yaml").write_text(MANIFESTS.split("---\n")[0])
    return tmp_path


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["review", "--policies", "policies.py", *arguments], input=text)


def run_configuration(*arguments: str) -> Result:
    Path("webhooks.yaml").write_text(CONFIGURATION)
    Path("two.yaml").write_text("---\n".join(MANIFESTS.split("---\n")[:2]))
    return CliRunner().invoke(main, ["review", "--config", "webhooks.yaml", "two.yaml", *arguments])


def test_table_of_a_configuration() -> None:
    result = run_configuration()
    assert result.stdout.splitlines() == [
        "PLACE       KIND       NAME              VERDICT  POLICY   REASON",
        "two.yaml:1  Pod        default/web       allowed",
        "                                         warning  owner    no owner, no <pod> & no \\x1b[31mred",
        "                                         audit    audited  no owner, no <pod> & no \\x1b[31mred",
        "                                         exempt   later    moving",
        "two.yaml:5  ConfigMap  default/settings  allowed",
        "                                         exempt   team     of no team",
        "2 reviewed: 2 allowed, 0 changed, 0 denied",
    ]
    assert (result.exit_code, result.stderr) == (0, "")


def test_data_of_a_configuration() -> None:
    report = json.loads(run_configuration("-o", "json").stdout)
    assert yaml.safe_load(run_configuration("-o", "yaml").stdout) == report
    web, settings = report["reviews"]
    message = "no owner, no <pod> & no \x1b[31mred"
    assert (web["verdict"], web["denials"]) == ("allowed", [])
    assert web["warnings"] == [{"policy": "owner", "message": message}]
    assert web["audited"] == [{"policy": "audited", "message": message}]
    assert web["exemptions"] == [{"policy": "later", "reason": "moving"}]
    assert web["auditAnnotations"] == {"audited.denied": message.replace("\x1b", " "), "later.exempted": "moving"}
    assert settings["exemptions"] == [{"policy": "team", "reason": "of no team"}]


def test_exchange_formats_of_a_configuration() -> None:
    root = ElementTree.fromstring(run_configuration("-o", "junit").stdout)
    assert (root.get("failures"), list(root.iter("failure"))) == ("0", [])
    [web, settings] = [case.findtext("system-out") for case in root.iter("testcase")]
    message = "no owner, no <pod> & no \ufffd[31mred"
    assert web == f"warning: owner: {message}\naudit: audited: {message}\nexempt: later: moving"
    assert settings == "exempt: team: of no team"
    [run_] = json.loads(run_configuration("-o", "sarif").stdout)["runs"]
    assert [(result["ruleId"], result["level"], result.get("kind")) for result in run_["results"]] == [
        ("owner", "warning", None),
        ("audited", "note", None),
        ("later", "none", "notApplicable"),
        ("team", "none", "notApplicable"),
    ]
    assert [rule["id"] for rule in run_["tool"]["driver"]["rules"]] == ["audited", "later", "owner", "team"]


def test_a_configuration_and_policies() -> None:
    Path("more.py").write_text(POLICIES.replace("def owner", "def enforced").replace("def team", "def _team"))
    result = run_configuration("--policies", "more.py", "-o", "json")
    assert result.exit_code == 1
    reviews = json.loads(result.stdout)["reviews"]
    assert [[denial["policy"] for denial in review["denials"]] for review in reviews] == [["enforced"], []]


def test_warnings_and_audited_denials_do_not_prevent_storage() -> None:
    result = run_configuration("-o", "patched")
    assert [object_["metadata"]["name"] for object_ in yaml.safe_load_all(result.stdout)] == ["web", "settings"]
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        (CONFIGURATION.replace("warn", "warned"), "webhooks.yaml:4:36: policies[0].mode: Unsupported value"),
        (CONFIGURATION.replace("policies.py:team", "nothing.py"), "webhooks.yaml:7:11: policies[3].use: Invalid value"),
        ("", "webhooks.yaml: the file is empty"),
    ],
)
def test_an_invalid_configuration(configuration: str, message: str) -> None:
    Path("webhooks.yaml").write_text(configuration)
    result = CliRunner().invoke(main, ["review", "--config", "webhooks.yaml", "good.yaml"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"webhooks: {message}")


def test_policies_are_required() -> None:
    result = CliRunner().invoke(main, ["review", "good.yaml"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == "Error: No policies: give --config or --policies."


def test_table() -> None:
    result = run("all.yaml")
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        "PLACE        KIND       NAME              VERDICT  POLICY  REASON",
        "all.yaml:1   Pod        default/web       denied   owner   no owner, no <pod> & no \\x1b[31mred",
        "all.yaml:5   ConfigMap  default/settings  changed  team",
        "    @@ -4,4 +4,6 @@",
        "       name: settings",
        "       namespace: default",
        "    +  labels:",
        "    +    team: system:authenticated",
        "     data:",
        '       a: "1"',
        "all.yaml:13  Pod        team-a/db         allowed",
        "                                          warning  owner   owners move to annotations",
        "3 reviewed: 1 allowed, 1 changed, 1 denied, 1 could not be read",
    ]
    assert result.stderr == "webhooks: all.yaml:11: not YAML: mapping values are not allowed in this context\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("good.yaml",), 0),
        (("bad.yaml",), 1),
        (("good.yaml", "bad.yaml"), 1),
        (("all.yaml",), 2),
        (("good.yaml", "missing.yaml"), 2),
        (("bad.yaml", "--old", "missing.yaml"), 2),
        (("bad.yaml", "--old", "good.yaml", "--operation", "UPDATE"), 2),
        (("bad.yaml", "--old", "bad.yaml", "--operation", "UPDATE"), 1),
        (("good.yaml", "--operation", "DELETE"), 0),
    ],
)
@pytest.mark.parametrize("output", FORMATS)
def test_exit_codes(arguments: tuple[str, ...], code: int, output: str) -> None:
    result = run(*arguments, "-o", output)
    assert result.exit_code == code, result.output
    assert bool(result.stderr) == (code == 2 or (output == "patched" and code == 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'MANIFESTS...'"),
        (("good.yaml", "--operation", "CONNECT"), "--operation"),
        (("good.yaml", "-o", "xml"), "--output"),
        (("good.yaml", "--operation", "UPDATE"), "--operation UPDATE requires the stored objects: give --old"),
        (
            ("good.yaml", "--operation", "CREATE", "--old", "good.yaml"),
            "--operation CREATE and --old contradict each other",
        ),
        (("good.yaml", "--policies", "missing.py"), "missing.py: no such file or folder"),
        (("good.yaml", "--policies", "policies.py"), "two policies are named"),
    ],
)
def test_invalid_arguments(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_standard_input() -> None:
    result = run("-", text=MANIFESTS)
    assert "<stdin>:13  Pod        team-a/db         allowed" in result.stdout.splitlines()


def test_all_formats_can_be_chosen() -> None:
    [output] = [parameter for parameter in command.params if parameter.name == "output"]
    assert list(output.type.choices) == list(FORMATS)  # type: ignore[attr-defined]


def test_data() -> None:
    report = json.loads(run("all.yaml", "-o", "json").stdout)
    assert yaml.safe_load(run("all.yaml", "-o", "yaml").stdout) == report
    assert report["summary"] == {"reviewed": 3, "allowed": 1, "changed": 1, "denied": 1, "unread": 1}
    denied, changed, allowed = report["reviews"]
    assert denied["denials"] == [{"policy": "owner", "message": "no owner, no <pod> & no \x1b[31mred"}]
    assert (changed["changedBy"], [operation["op"] for operation in changed["patch"]]) == (["team"], ["add"])
    assert (allowed["file"], allowed["line"], allowed["namespace"], allowed["name"]) == ("all.yaml", 13, "team-a", "db")
    assert allowed["warnings"] == [{"policy": "owner", "message": "owners move to annotations"}]
    assert report["problems"] == [{"file": "all.yaml", "line": 11, "message": report["problems"][0]["message"]}]


def test_objects_that_no_policy_matches_are_marked() -> None:
    """Otherwise a match that never applies would look like an approval."""
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: node}\n"
    assert "no policy matches it" in run("-", text=node).stdout
    [review] = json.loads(run("-", "-o", "json", text=node).stdout)["reviews"]
    assert (review["verdict"], review["policies"]) == ("allowed", [])


def test_patched() -> None:
    result = run("all.yaml", "-o", "patched")
    settings, db = yaml.safe_load_all(result.stdout)
    assert settings["metadata"] == {"name": "settings", "labels": {"team": "system:authenticated"}}
    assert db["metadata"]["namespace"] == "team-a"
    assert "all.yaml:1: Pod default/web is denied: owner: no owner" in result.stderr


def test_junit() -> None:
    root = ElementTree.fromstring(run("all.yaml", "good.yaml", "-o", "junit").stdout)
    assert root.tag == "testsuites"
    for element in (root, *root):
        assert {"name", "tests", "failures", "errors", "time"} <= set(element.attrib)
    for case in root.iter("testcase"):
        assert {"name", "classname", "time"} <= set(case.attrib)
        assert {inner.tag for inner in case} <= {"failure", "error", "system-out"}
    first, second = root
    assert (first.get("tests"), first.get("failures"), first.get("errors")) == ("4", "1", "1")
    assert (second.get("name"), second.get("failures")) == ("good.yaml", "0")
    assert [failure.get("message") for failure in root.iter("failure")] == [
        "owner: no owner, no <pod> & no \ufffd[31mred"
    ]


def test_sarif() -> None:
    report = json.loads(run("all.yaml", "-o", "sarif").stdout)
    assert (report["version"], report["$schema"].rpartition("/")[2]) == ("2.1.0", "sarif-2.1.0.json")
    [run_] = report["runs"]
    rules = run_["tool"]["driver"]["rules"]
    assert run_["tool"]["driver"]["name"] == "webhooks"
    assert [(result["ruleId"], result["level"]) for result in run_["results"]] == [
        ("owner", "error"),
        ("owner", "warning"),
    ]
    for result in run_["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]
        assert location_of(result)["artifactLocation"]["uri"] == "all.yaml"
    assert [location_of(result)["region"]["startLine"] for result in run_["results"]] == [1, 13]
    [invocation] = run_["invocations"]
    assert invocation["executionSuccessful"] is False
    [notification] = invocation["toolExecutionNotifications"]
    assert (notification["level"], location_of(notification)["region"]) == ("error", {"startLine": 11})
    assert notification["message"]["text"]


def location_of(result: dict[str, Any]) -> dict[str, Any]:
    [location] = result["locations"]
    return location["physicalLocation"]  # type: ignore[no-any-return]


CONSOLE_EXAMPLES = re.findall(r"^```console\n\$ webhooks (.*?)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("arguments", "output"), CONSOLE_EXAMPLES)
def test_the_examples_in_the_docs(arguments: str, output: str, folder: Path) -> None:
    for text, file in re.findall(r"^```yaml\n(# (\S+)\n.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        (folder / file).write_text(text)
    result = CliRunner().invoke(main, arguments.split())
    assert (result.exit_code, result.stdout) == (1, output)


def test_every_option_is_documented() -> None:
    page = PAGE.read_text()
    options = [option for parameter in command.params for option in parameter.opts if option.startswith("-")]
    assert [option for option in options if f"`{option}" not in page] == []
