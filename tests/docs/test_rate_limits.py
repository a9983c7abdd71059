"""The page about rate limits is correct."""

import re
from pathlib import Path

import pytest
import yaml

from webhooks.config.strict_yaml import parse
from webhooks.plugins import admission_configuration
from webhooks.plugins.event_rate_limit import configure
from webhooks.plugins.event_rate_limit.settings import LimitSettings, RedisSettings, Settings
from webhooks.plugins.loader import PluginContext

FILE = Path("/etc/webhooks/limits.yaml")

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "rate-limits.md").read_text()
FENCED = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
BLOCKS = {yaml.safe_load(text)["kind"]: text for text in FENCED}


def test_the_embedded_configuration_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(BLOCKS["AdmissionConfiguration"])
    [entry] = admission_configuration.read(file, ["EventRateLimit"])
    [policy] = configure(entry.read(), PluginContext())
    assert f"/admission/validate/{policy.dns_name}" in BLOCKS["ValidatingWebhookConfiguration"]


def test_the_file_is_valid() -> None:
    settings = parse(BLOCKS["Configuration"].encode(), FILE).read(Settings, FILE.parent)
    assert settings.redis is not None


@pytest.mark.parametrize(("model", "prefix"), [(Settings, ""), (LimitSettings, "limits[]."), (RedisSettings, "redis.")])
def test_every_field_is_documented(model: type[Settings], prefix: str) -> None:
    names = {f"{prefix}{field.alias}" for field in model.model_fields.values()}
    assert {name for name in names if f"| `{name}` |" not in PAGE} <= {"apiVersion", "kind", "limits", "redis"}
