"""The code in the documentation works."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from pydantic.alias_generators import to_camel

import webhooks
from webhooks.config import file as configured
from webhooks.plugins.loader import load_checked
from webhooks.policy import loader

from ..support.exposed import metrics
from ..support.servers import SECONDS
from ..support.walks import Walk, files, steps

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[pytest.param]:
    """Every block of code in a language, named by its page and place there."""
    fenced = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [
        pytest.param(text, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, text in enumerate(fenced.findall(page.read_text()))
    ]


# What is shown of others, in `py`, is none of ours.
@pytest.mark.parametrize(
    "code", [each for each in blocks("python") if not re.match(r"# (policies/)?test_", each.values[0])]
)
def test_policies_in_the_docs_load(code: str, tmp_path: Path) -> None:
    file = tmp_path / "page.py"
    file.write_text(code)
    assert len(loader.load([str(file)])) > 0


def test_what_the_docs_say_of_testing_passes(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guides" / "testing.md").read_text()
    files = re.findall(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for name, text in files:
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert ended.returncode == 0, ended.stdout
    tests = [name for name, _ in files if name.startswith("test_") or name.endswith("_cases.yaml")]
    assert len(tests) == 6
    assert [name for name in tests if f"{name}::" not in ended.stdout] == []


@pytest.mark.parametrize("text", blocks("yaml"))
def test_manifests_in_the_docs_are_objects(text: str) -> None:
    for document in yaml.safe_load_all(text):
        assert document["apiVersion"]
        assert document["kind"]


CONFIGURED = [page for page in PAGES if "kind: WebhookConfiguration" in page.read_text()]


@pytest.mark.parametrize("page", CONFIGURED, ids=lambda page: page.stem)
def test_configurations_in_the_docs_are_good(page: Path, tmp_path: Path) -> None:
    """All but those that are shown for what is wrong with them, in `broken.yaml`."""
    for file in files(page):
        path = tmp_path / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)
    for text in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        if "kind: WebhookConfiguration" in text and not text.startswith("# broken.yaml"):
            (tmp_path / "shown.yaml").write_text(text)
            assert load_checked(configured.read(tmp_path / "shown.yaml"))


WALKED = (
    "README",
    "configuration",
    "from-gatekeeper",
    "from-kopf",
    "from-kyverno",
    "offline-review",
    "rate-limits",
    "tutorial",
)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on PATH")
@pytest.mark.parametrize("page", [page for page in PAGES if page.stem in WALKED], ids=lambda page: page.stem)
def test_what_a_page_does_works(page: Path, tmp_path: Path) -> None:
    with Walk(tmp_path) as walk:
        for step in steps(page):
            walk.take(step)


def test_bundled_policies_that_the_docs_name_are_there() -> None:
    names = {name for page in PAGES for name in re.findall(r"\blibrary:([a-z]\w*)", page.read_text())}
    table = sections(ROOT / "docs" / "guides" / "from-gatekeeper.md")["The constraint library"]
    for constraints, ours in re.findall(r"^\| (`K8s.*) \| (.*) \|$", table, re.MULTILINE):
        found = re.findall(r"`(\w+)`", ours)
        assert len(found) == constraints.count("`K8s")
        names |= set(found)
    assert names - loader.bundled_files().keys() == set()


FIELDS = {
    "The configuration file": "WebhookConfiguration",
    "Server": "Server",
    "Limits": "Limits",
    "Policies": "PolicyEntry",
    "Match": "MatchOverride",
    "Exemptions": "ExemptionEntry",
}


def test_every_field_of_configurations_is_documented() -> None:
    schema = configured.schema()
    models = {**schema["$defs"], schema["title"]: schema}
    assert models.keys() == set(FIELDS.values())
    found = sections(ROOT / "docs" / "reference" / "configuration.md")
    for section, model in FIELDS.items():
        documented = re.findall(r"^\| `(\w+)` \|", found[section], re.MULTILINE)
        assert sorted(documented) == sorted(models[model]["properties"]), section


def test_fields_are_those_of_their_flags() -> None:
    from webhooks.cli.main import main

    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    flags = {option for parameter in main.commands["serve"].params for option in parameter.opts}
    paired = re.findall(r"^\| `(\w+)` \| `(--[a-z-]+)` \|", page, re.MULTILINE)
    assert [pair for pair in paired if to_camel(pair[1][2:].replace("-", "_")) != pair[0]] == []
    assert {flag for _, flag in paired} == flags - {"--config", "--policies"}


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def sections(page: Path) -> dict[str, str]:
    """The sections of a page at any depth, by their headings, each without those below it."""
    parts = re.split(r"^#+ (.*)\n", prose(page), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def anchor(heading: str) -> str:
    """What links call a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target, fragment in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", prose(page)):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        assert not fragment or fragment in map(anchor, sections(linked)), f"{target}#{fragment}"


def test_every_page_is_listed() -> None:
    index = ROOT / "docs" / "index.md"
    listed = prose(index)
    pages = [page.relative_to(index.parent) for page in PAGES[1:] if page != index]
    assert [page.as_posix() for page in pages if f"]({page.as_posix()})" not in listed] == []


def test_every_public_name_is_documented() -> None:
    documented = set(re.findall(r"\w+", "".join(page.read_text() for page in PAGES)))
    assert set(webhooks.__all__) - documented == set()


def test_every_option_is_documented() -> None:
    from webhooks.cli.main import main

    documented = "".join(page.read_text() for page in PAGES)
    options = [option for command in commands(main) for parameter in command.params for option in parameter.opts]
    assert options
    assert [option for option in options if option.startswith("-") and f"`{option}" not in documented] == []


def commands(group: click.Group) -> Iterator[click.Command]:
    for command in group.commands.values():
        yield from commands(command) if isinstance(command, click.Group) else [command]


OPERATIONS = ROOT / "docs" / "guides" / "operations.md"


def test_every_metric_is_documented() -> None:
    known = {re.sub(r"_(bucket|sum|count)$", "", name) for name in metrics()}
    named = set(re.findall(r"`(webhooks_[a-z_]+)", "".join(page.read_text() for page in PAGES)))
    assert named - {"webhooks_cases"} == known  # which is an option of pytest's
    entries = re.findall(r"^\| `(webhooks_\w+)` \|", sections(OPERATIONS)["Metrics"], re.MULTILINE)
    assert sorted(entries) == sorted(known)


def test_every_alert_has_its_entry() -> None:
    [group] = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_bytes())["groups"]
    entries = [section for section in sections(OPERATIONS) if section.startswith("Webhooks")]
    assert entries == list(dict.fromkeys(rule["alert"] for rule in group["rules"]))


def test_every_failure_has_its_remedy() -> None:
    section = sections(OPERATIONS)["What a failure gets"]
    got, done = (re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE)[1:] for table in section.split("What to do then:"))
    assert len(done) > 10
    assert done == [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", row) for row in got if not row.startswith("...")]


def test_every_complaint_in_the_log_has_its_entry() -> None:
    told = dict(re.findall(r"^\| `(.*?)` \| (error|warning) \|", sections(OPERATIONS)["Log messages"], re.MULTILINE))
    exemption = told.pop("policy ...: an exemption expired ... (...): remove it")  # a line of `configured.ended`
    assert exemption == "warning"
    assert told == dict(complaints())


def complaints() -> Iterator[tuple[str, str]]:
    """The messages of the code that are errors or warnings, with ``...`` for what differs, and their levels."""
    levels = {"error": "error", "exception": "error", "warning": "warning"}
    for file in (ROOT / "webhooks").rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            match call:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=("logger" | "policy_logger")), attr=level),
                    args=[ast.Constant(value=str(message)), *_],
                ) if level in levels and message != "%s":
                    yield re.sub(r"%(\.\d+)?[a-z]", "...", message), levels[level]
