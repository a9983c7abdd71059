"""The page says what is so."""

import re
from pathlib import Path

import pytest
import yaml

from webhooks.configuration import admission
from webhooks.configuration.documents import parse
from webhooks.meters import Counter
from webhooks.plugin import Site
from webhooks.plugins.event_rate_limit import configure
from webhooks.plugins.event_rate_limit.settings import LimitSettings, RedisSettings, Settings

from .test_settings import FILE, REDIS, configuration

PAGE = (Path(__file__).parents[3] / "docs" / "event-rate-limits.md").read_text()
FENCED = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
BLOCKS = {yaml.safe_load(text)["kind"]: text for text in FENCED}


def test_the_embedded_configuration_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(BLOCKS["AdmissionConfiguration"])
    [entry] = admission.read(file, ["EventRateLimit"])
    [policy] = configure(entry.document(), Site())
    assert f"/admission/validate/{policy.name}" in BLOCKS["ValidatingWebhookConfiguration"]


def test_the_file_is_taken() -> None:
    settings = parse(BLOCKS["Configuration"].encode(), FILE).read(Settings, FILE.parent)
    assert settings.redis is not None


@pytest.mark.parametrize(("model", "prefix"), [(Settings, ""), (LimitSettings, "limits[]."), (RedisSettings, "redis.")])
def test_every_field_is_documented(model: type[Settings], prefix: str) -> None:
    names = {f"{prefix}{field.alias}" for field in model.model_fields.values()}
    assert {name for name in names if f"| `{name}` |" not in PAGE} <= {"apiVersion", "kind", "limits", "redis"}


def test_every_metric_is_documented() -> None:
    site = Site()
    tree = configuration(backend="redis", redis=REDIS)
    configure(parse(yaml.safe_dump(tree).encode(), FILE), site)
    meters = site.meters.by_name
    names = {f"{name}_total" if isinstance(meter, Counter) else name for name, meter in meters.items()}
    assert names == set(re.findall(r"^\| `(webhooks_\w+)` \|", PAGE, re.MULTILINE))
