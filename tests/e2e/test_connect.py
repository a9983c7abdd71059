"""The webhook configurations and files that the guide shows, used as they are."""

import base64
import re
from pathlib import Path

import pytest
import yaml

from .cluster import Cluster
from .kubectl import Kubectl

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "connect.md"


def test_the_webhook_configurations_are_accepted(admin: Kubectl, cluster: Cluster) -> None:
    ca_bundle = base64.b64encode(cluster.ca.read_bytes()).decode()
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    documents = [document for block in blocks for document in yaml.safe_load_all(block)]
    configurations = [one for one in documents if one["apiVersion"] == "admissionregistration.k8s.io/v1"]
    assert [one["kind"] for one in configurations] == ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]
    for configuration in configurations:
        for webhook in configuration["webhooks"]:
            config = webhook["clientConfig"]
            config["url"] = config["url"].replace("127.0.0.1:8443", f"127.0.0.1:{cluster.port}")
            config["caBundle"] = config["caBundle"].replace("CA_BUNDLE", ca_bundle)
        assert "created (server dry run)" in admin("apply", "--dry-run=server", "-f", "-", body=configuration).out


def test_the_api_server_is_configured_as_the_guide_says(cluster: Cluster) -> None:
    """The harness writes the same kinds of files with the same fields."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    configurations = [yaml.safe_load(block) for block in blocks if "AdmissionConfiguration" in block]
    ours = yaml.safe_load(cluster.admission.read_text())
    assert shape(configurations[0]) == shape(ours)


def shape(value: object) -> object:
    """Return the keys and lists of an object without values, except for apiVersion, kind and name."""
    if isinstance(value, dict):
        return {key: value[key] if key in ("apiVersion", "kind", "name") else shape(value[key]) for key in value}
    if isinstance(value, list):
        return sorted((shape(item) for item in value), key=str)
    return None
