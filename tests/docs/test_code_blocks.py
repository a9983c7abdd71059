"""The code on the pages works: policies load, configurations are valid, manifests are objects."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from webhooks import bundled
from webhooks.cli.main import main
from webhooks.config import file as config_file
from webhooks.plugins.loader import load_checked
from webhooks.policy import loader

from ..support.pages import DOCS, PAGES, blocks, page_id, sections
from ..support.servers import SECONDS
from ..support.walks import parse_files

# Code of other projects has the language `py`.
POLICIES = [block for block in blocks("python") if not re.match(r"# (policies/)?test_", block.values[0])]
COMMANDS = [
    command
    for page in PAGES
    for block in re.findall(r"^```(?:sh|console|yml)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    for command in re.findall(r"(?<![\w/.-])webhooks ([a-z][^|>;&()\n]*)", block.replace("\\\n", " "))
    if command.split()[0] in main.commands and not command.endswith("[")
]
CONFIGURED = [page for page in PAGES if "kind: WebhookConfiguration" in page.read_text()]


@pytest.mark.parametrize("code", POLICIES)
def test_policies_load(code: str, tmp_path: Path) -> None:
    file = tmp_path / "page.py"
    file.write_text(code)
    assert len(loader.load([str(file)])) > 0


@pytest.mark.parametrize("code", [block for block in blocks("py") if " = create_app(" in block.values[0]])
def test_applications_are_created(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokens.csv").write_text("token,jane\n")
    (tmp_path / "admission.yaml").write_text(
        "{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, plugins: [{name: EventRateLimit,"
        " configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration,"
        " limits: [{type: Server, qps: 1, burst: 1}]}}]}"
    )
    monkeypatch.chdir(tmp_path)
    names = {"policies": [bundled("required_labels")]}
    exec(code, names)
    assert callable(names["app"])


@pytest.mark.parametrize("text", blocks("yaml"))
def test_manifests_are_objects(text: str) -> None:
    for document in yaml.safe_load_all(text):
        assert document["apiVersion"]
        assert document["kind"]


@pytest.mark.parametrize("text", blocks("yml"))
def test_pipelines_are_yaml(text: str) -> None:
    assert isinstance(yaml.safe_load(text), dict)


@pytest.mark.parametrize("line", sorted(set(COMMANDS)))
def test_commands_have_these_options(line: str) -> None:
    """Commands on all pages, also those that no test runs."""
    name, *arguments = shlex.split(line, comments=True)
    command = main.commands[name]
    if isinstance(command, click.Group):
        command = command.commands[arguments.pop(0)]
    command.make_parser(click.Context(command, info_name=name)).parse_args(arguments)


@pytest.mark.parametrize("page", CONFIGURED, ids=page_id)
def test_configurations_are_valid(page: Path, tmp_path: Path) -> None:
    """All except those that show errors, in `broken.yaml`."""
    for file in parse_files(page):
        path = tmp_path / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)
    for text in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        if "kind: WebhookConfiguration" in text and not text.startswith("# broken.yaml"):
            (tmp_path / "shown.yaml").write_text(text)
            assert load_checked(config_file.read(tmp_path / "shown.yaml"))


def test_the_tests_of_the_testing_guide_pass(tmp_path: Path) -> None:
    page = (DOCS / "guides" / "testing.md").read_text()
    files = re.findall(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for name, text in files:
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert result.returncode == 0, result.stdout
    tests = [name for name, _ in files if name.startswith("test_") or name.endswith("_cases.yaml")]
    assert len(tests) == 6
    assert [name for name in tests if f"{name}::" not in result.stdout] == []


def test_bundled_policies_on_the_pages_exist() -> None:
    names = {name for page in PAGES for name in re.findall(r"\blibrary:([a-z]\w*)", page.read_text())}
    table = sections(DOCS / "guides" / "from-gatekeeper.md")["The constraint library"]
    for constraints, policies in re.findall(r"^\| (`K8s.*) \| (.*) \|$", table, re.MULTILINE):
        equivalents = re.findall(r"`(\w+)`", policies)
        assert len(equivalents) == constraints.count("`K8s")
        names |= set(equivalents)
    assert names - loader.bundled_files().keys() == set()
