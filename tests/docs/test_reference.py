"""The reference pages are complete and up to date."""

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence

import click
import pytest
import yaml
from pydantic.alias_generators import to_camel

import webhooks
from webhooks.cli.main import main
from webhooks.config import file as config_file

from ..generate import reference
from ..generate.api import GROUPS
from ..support.metric_names import metric_labels
from ..support.pages import DOCS, PAGES, ROOT, sections

CONFIGURATION = sections(DOCS / "reference" / "configuration.md")
HTTP = sections(DOCS / "reference" / "http.md")
LOG = sections(DOCS / "reference" / "log-messages.md")
METRICS = sections(DOCS / "reference" / "metrics.md")
OPERATIONS = sections(DOCS / "guides" / "operations.md")

MODELS = {
    "Configuration file": "WebhookConfiguration",
    "Server": "Server",
    "Limits": "Limits",
    "Policies": "PolicyEntry",
    "Match": "MatchOverride",
    "Exemptions": "ExemptionEntry",
}


@pytest.mark.parametrize("page", reference.REGIONS)
def test_generated_regions_are_up_to_date(page: str) -> None:
    assert (reference.FOLDER / page).read_text() == reference.generate(page), f"run {reference.COMMAND}"


def test_every_public_name_is_in_the_api_reference() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(webhooks.__all__)


def test_every_field_of_configurations_is_documented() -> None:
    schema = config_file.schema()
    models = {**schema["$defs"], schema["title"]: schema}
    assert models.keys() == set(MODELS.values())
    for section, model in MODELS.items():
        assert sorted(first_cells(CONFIGURATION[section])) == sorted(models[model]["properties"]), section


def test_every_option_of_serve_is_a_field() -> None:
    fields = first_cells(CONFIGURATION["Server"]) + first_cells(CONFIGURATION["Limits"])
    options = [option for parameter in main.commands["serve"].params for option in parameter.opts]
    names = [to_camel(option.removeprefix("--").replace("-", "_")) for option in options]
    assert sorted({*fields} - {"limits"}) == sorted({*names} - {"config", "policies"})


def test_every_option_is_documented() -> None:
    documented = "".join(page.read_text() for page in PAGES)
    options = [option for command in commands(main) for parameter in command.params for option in parameter.opts]
    assert options
    assert [option for option in options if option.startswith("-") and f"`{option}" not in documented] == []


def commands(group: click.Group) -> Iterator[click.Command]:
    for command in group.commands.values():
        yield from commands(command) if isinstance(command, click.Group) else [command]


def test_every_metric_is_documented() -> None:
    known = {re.sub(r"_(bucket|sum|count)$", "", name) for name in metric_labels()}
    others = {"webhooks_cases", "webhooks_reserved_names"}  # an option of pytest, and a metric of the example plugin
    assert set(re.findall(r"`(webhooks_[a-z_]+)", "".join(page.read_text() for page in PAGES))) - others == known
    for section in ("All metrics", "Label values and what to watch"):
        assert sorted(first_cells(METRICS[section])) == sorted(known), section


def test_every_alert_is_documented() -> None:
    [group] = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_bytes())["groups"]
    documented = [section for section in OPERATIONS if section.startswith("Webhooks")]
    assert documented == list(dict.fromkeys(rule["alert"] for rule in group["rules"]))


def test_every_failure_has_a_remedy() -> None:
    tables = HTTP["Responses to failures"].split("Remedies:")
    failures, remedies = (re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE)[1:] for table in tables)
    assert len(remedies) > 10
    assert remedies == [
        re.sub(r"\[(.*?)\]\(.*?\)", r"\1", failure) for failure in failures if not failure.startswith("...")
    ]


def test_every_error_and_warning_of_the_log_is_documented() -> None:
    documented = dict(re.findall(r"^\| `(.*?)` \| (error|warning) \|", LOG["Messages"], re.MULTILINE))
    exemption = [message for message in documented if "exemption" in message]  # logged with the text of `check`
    assert [documented.pop(message) for message in exemption] == ["warning"]
    assert documented == dict(log_messages())


def log_messages() -> Iterator[tuple[str, str]]:
    """Yield the messages of errors and warnings in the code with their levels, with ``...`` for variable parts."""
    levels = {"error": "error", "exception": "error", "warning": "warning"}
    for file in (ROOT / "webhooks").rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            match call:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=("logger" | "policy_logger")), attr=level),
                    args=[ast.Constant(value=str(message)), *_],
                ) if level in levels and message != "%s":
                    yield re.sub(r"%(\.\d+)?[a-z]", "...", message), levels[level]


def first_cells(section: str) -> Sequence[str]:
    """Return the code in the first cells of the tables of a section."""
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def test_the_architecture_shows_the_levels_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    levels = [level.split(" | ") for level in contracts[0]["layers"]][1:]  # without __main__
    table = sections(DOCS / "explanation" / "architecture.md")["Packages"]
    rows = re.findall(r"^\| (\d) \| (.*?) \|", table, re.MULTILINE)
    documented = [(int(level), name) for level, cell in rows for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(documented) == sorted((number, name) for number, names in enumerate(levels, 1) for name in names)
    picture = (DOCS / "images" / "architecture.svg").read_text()
    assert re.findall(r'class="package"[^>]*>(\w+)<', picture) == [name for names in levels for name in names]
