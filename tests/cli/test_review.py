"""``webhooks review``, as somebody meets it who types."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner, Result

from webhooks.cli.main import main
from webhooks.cli.main import review as command
from webhooks.offline import reports

from ..support.servers import SECONDS

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


def configured(*arguments: str) -> Result:
    Path("webhooks.yaml").write_text(CONFIGURATION)
    Path("two.yaml").write_text("---\n".join(MANIFESTS.split("---\n")[:2]))
    return CliRunner().invoke(main, ["review", "--config", "webhooks.yaml", "two.yaml", *arguments])


def test_table_of_a_configuration() -> None:
    ended = configured()
    assert ended.stdout.splitlines() == [
        "PLACE       KIND       NAME              VERDICT  POLICY   REASON",
        "two.yaml:1  Pod        default/web       allowed",
        "                                         warning  owner    no owner, no <pod> & no \\x1b[31mred",
        "                                         audit    audited  no owner, no <pod> & no \\x1b[31mred",
        "                                         exempt   later    moving",
        "two.yaml:5  ConfigMap  default/settings  allowed",
        "                                         exempt   team     of no team",
        "2 reviewed: 2 allowed, 0 changed, 0 denied",
    ]
    assert (ended.exit_code, ended.stderr) == (0, "")


def test_data_of_a_configuration() -> None:
    found = json.loads(configured("-o", "json").stdout)
    assert yaml.safe_load(configured("-o", "yaml").stdout) == found
    web, settings = found["reviews"]
    message = "no owner, no <pod> & no \x1b[31mred"
    assert (web["verdict"], web["denials"]) == ("allowed", [])
    assert web["warnings"] == [{"policy": "owner", "message": message}]
    assert web["audited"] == [{"policy": "audited", "message": message}]
    assert web["exemptions"] == [{"policy": "later", "reason": "moving"}]
    assert web["auditAnnotations"] == {"audited.denied": message.replace("\x1b", " "), "later.exempted": "moving"}
    assert settings["exemptions"] == [{"policy": "team", "reason": "of no team"}]


def test_exchange_formats_of_a_configuration() -> None:
    root = ElementTree.fromstring(configured("-o", "junit").stdout)
    assert (root.get("failures"), list(root.iter("failure"))) == ("0", [])
    [web, settings] = [case.findtext("system-out") for case in root.iter("testcase")]
    message = "no owner, no <pod> & no \ufffd[31mred"
    assert web == f"warning: owner: {message}\naudit: audited: {message}\nexempt: later: moving"
    assert settings == "exempt: team: of no team"
    [ran] = json.loads(configured("-o", "sarif").stdout)["runs"]
    assert [(each["ruleId"], each["level"], each.get("kind")) for each in ran["results"]] == [
        ("owner", "warning", None),
        ("audited", "note", None),
        ("later", "none", "notApplicable"),
        ("team", "none", "notApplicable"),
    ]
    assert [rule["id"] for rule in ran["tool"]["driver"]["rules"]] == ["audited", "later", "owner", "team"]


def test_a_configuration_beside_policies() -> None:
    Path("more.py").write_text(POLICIES.replace("def owner", "def enforced").replace("def team", "def _team"))
    ended = configured("--policies", "more.py", "-o", "json")
    assert ended.exit_code == 1
    denials = [each["denials"] for each in json.loads(ended.stdout)["reviews"]]
    assert [[each["policy"] for each in said] for said in denials] == [["enforced"], []]


def test_what_is_warned_of_and_audited_is_stored() -> None:
    ended = configured("-o", "patched")
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(ended.stdout)] == ["web", "settings"]
    assert ended.stderr == ""


@pytest.mark.parametrize(
    ("configuration", "says"),
    [
        (CONFIGURATION.replace("warn", "warned"), "webhooks.yaml:4:36: policies[0].mode: Unsupported value"),
        (CONFIGURATION.replace("policies.py:team", "nothing.py"), "webhooks.yaml:7:11: policies[3].use: Invalid value"),
        ("", "webhooks.yaml: there is nothing in it"),
    ],
)
def test_a_configuration_that_is_wrong(configuration: str, says: str) -> None:
    Path("webhooks.yaml").write_text(configuration)
    ended = CliRunner().invoke(main, ["review", "--config", "webhooks.yaml", "good.yaml"])
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"webhooks: {says}")


def test_nothing_to_review_by() -> None:
    ended = CliRunner().invoke(main, ["review", "good.yaml"])
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.splitlines()[-1] == "Error: Nothing to review by: give --config or --policies."


def test_table() -> None:
    ended = run("all.yaml")
    assert ended.exit_code == 2
    assert ended.stdout.splitlines() == [
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
    assert ended.stderr == "webhooks: all.yaml:11: not YAML: mapping values are not allowed in this context\n"


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
@pytest.mark.parametrize("output", reports.FORMATS)
def test_exit_codes(arguments: tuple[str, ...], code: int, output: str) -> None:
    ended = run(*arguments, "-o", output)
    assert ended.exit_code == code, ended.output
    assert bool(ended.stderr) == (code == 2 or (output == "patched" and code == 1))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "Missing argument 'MANIFESTS...'"),
        (("good.yaml", "--operation", "CONNECT"), "--operation"),
        (("good.yaml", "-o", "xml"), "--output"),
        (("good.yaml", "--operation", "UPDATE"), "an UPDATE needs the objects that are stored: give them by --old"),
        (("good.yaml", "--operation", "CREATE", "--old", "good.yaml"), "leave out --old"),
        (("good.yaml", "--policies", "missing.py"), "missing.py: no such file or folder"),
        (("good.yaml", "--policies", "policies.py"), "two policies are named"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], says: str) -> None:
    ended = run(*arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert says in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_standard_input() -> None:
    ended = run("-", text=MANIFESTS)
    assert "<stdin>:13  Pod        team-a/db         allowed" in ended.stdout.splitlines()


def test_the_formats_are_offered() -> None:
    [output] = [parameter for parameter in command.params if parameter.name == "output"]
    assert list(output.type.choices) == list(reports.FORMATS)  # type: ignore[attr-defined]


def test_data() -> None:
    found = json.loads(run("all.yaml", "-o", "json").stdout)
    assert yaml.safe_load(run("all.yaml", "-o", "yaml").stdout) == found
    assert found["summary"] == {"reviewed": 3, "allowed": 1, "changed": 1, "denied": 1, "unread": 1}
    denied, changed, allowed = found["reviews"]
    assert denied["denials"] == [{"policy": "owner", "message": "no owner, no <pod> & no \x1b[31mred"}]
    assert (changed["changedBy"], [each["op"] for each in changed["patch"]]) == (["team"], ["add"])
    assert (allowed["file"], allowed["line"], allowed["namespace"], allowed["name"]) == ("all.yaml", 13, "team-a", "db")
    assert allowed["warnings"] == [{"policy": "owner", "message": "owners move to annotations"}]
    assert found["problems"] == [{"file": "all.yaml", "line": 11, "message": found["problems"][0]["message"]}]


def test_what_no_policy_asks_about_is_told_apart() -> None:
    """Else a match that fits nothing would look like an approval."""
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: node}\n"
    assert "no policy asks about it" in run("-", text=node).stdout
    [review] = json.loads(run("-", "-o", "json", text=node).stdout)["reviews"]
    assert (review["verdict"], review["asked"]) == ("allowed", [])


def test_patched() -> None:
    ended = run("all.yaml", "-o", "patched")
    settings, db = yaml.safe_load_all(ended.stdout)
    assert settings["metadata"] == {"name": "settings", "labels": {"team": "system:authenticated"}}
    assert db["metadata"]["namespace"] == "team-a"
    assert "all.yaml:1: Pod default/web is denied: owner: no owner" in ended.stderr


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
    assert [each.get("message") for each in root.iter("failure")] == ["owner: no owner, no <pod> & no \ufffd[31mred"]


def test_sarif() -> None:
    found = json.loads(run("all.yaml", "-o", "sarif").stdout)
    assert (found["version"], found["$schema"].rpartition("/")[2]) == ("2.1.0", "sarif-2.1.0.json")
    [ran] = found["runs"]
    rules = ran["tool"]["driver"]["rules"]
    assert ran["tool"]["driver"]["name"] == "webhooks"
    assert [(each["ruleId"], each["level"]) for each in ran["results"]] == [("owner", "error"), ("owner", "warning")]
    for each in ran["results"]:
        assert rules[each["ruleIndex"]]["id"] == each["ruleId"]
        assert each["message"]["text"]
        assert where(each)["artifactLocation"]["uri"] == "all.yaml"
    assert [where(each)["region"]["startLine"] for each in ran["results"]] == [1, 13]
    [invocation] = ran["invocations"]
    assert invocation["executionSuccessful"] is False
    [notification] = invocation["toolExecutionNotifications"]
    assert (notification["level"], where(notification)["region"]) == ("error", {"startLine": 11})
    assert notification["message"]["text"]


def where(result: dict[str, Any]) -> dict[str, Any]:
    [location] = result["locations"]
    return location["physicalLocation"]  # type: ignore[no-any-return]


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """What a terminal is sent, on either stream."""
    outer, inner = pty.openpty()
    executable = Path(sys.executable).with_name("webhooks")
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TERM": "xterm", **environment}
    started = subprocess.Popen(
        [executable, "review", "--policies", "policies.py", *arguments], stdout=inner, stderr=inner, env=environment
    )
    os.close(inner)
    sent = b""
    try:
        while part := os.read(outer, 65536):
            sent += part
    except OSError:  # how a terminal ends
        pass
    os.close(outer)
    started.wait(SECONDS)
    return sent.decode()


def test_colours() -> None:
    assert "\x1b[31mdenied" in on_a_terminal("all.yaml")
    assert "\x1b[32m+  labels:" in on_a_terminal("all.yaml")
    assert "\x1b[" not in on_a_terminal("all.yaml", NO_COLOR="1")


def test_a_bar_when_there_is_much(folder: Path) -> None:
    (folder / "much.yaml").write_text(f"{MANIFESTS.rpartition('---')[2]}data: {'x' * 400_000}\n---\n" * 4)
    assert re.search(r"Reviewing .*100%", on_a_terminal("much.yaml", "-o", "sarif"))
    assert "Reviewing" not in on_a_terminal("good.yaml")


def test_a_policy_that_does_not_end(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import time\nfrom webhooks import *\n"
        "@validating('pods', timeout=0.1)\ndef slow(review: AdmissionReview) -> Decision:\n    time.sleep(600)\n"
    )
    sent = on_a_terminal("good.yaml", "--policies", "slow.py", NO_COLOR="1")
    assert "denied   slow    failed: policy 'slow' did not answer in time" in sent


def test_many_in_little_time(folder: Path) -> None:
    (folder / "many.yaml").write_text("---\n".join(MANIFESTS.split("---\n")[1:2] * 500))
    started = time.perf_counter()
    ended = run("many.yaml")
    assert ended.stdout.splitlines()[-1] == "500 reviewed: 0 allowed, 500 changed, 0 denied"
    assert time.perf_counter() - started < 5  # ten times what it should take


SESSIONS = re.findall(r"^```console\n\$ webhooks (.*?)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("arguments", "shown"), SESSIONS)
def test_the_examples_in_the_docs(arguments: str, shown: str, folder: Path) -> None:
    for text, file in re.findall(r"^```yaml\n(# (\S+)\n.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        (folder / file).write_text(text)
    ended = CliRunner().invoke(main, arguments.split())
    assert (ended.exit_code, ended.stdout) == (1, shown)


def test_every_option_is_documented() -> None:
    page = PAGE.read_text()
    options = [option for parameter in command.params for option in parameter.opts if option.startswith("-")]
    assert [option for option in options if f"`{option}" not in page] == []
