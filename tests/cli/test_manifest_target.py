"""Tests of the server and the target that ``webhooks manifests`` builds from its options."""

from pathlib import Path
from typing import Any

import click
import pytest

from webhooks.certificates import issue
from webhooks.cli.manifest_target import ServerConfig, build_target
from webhooks.errors import ConfigurationError
from webhooks.manifests.target import PARTS, Target
from webhooks.settings import Settings


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    issue(tmp_path, names=["localhost"])
    return tmp_path


def build(settings: Settings, **options: Any) -> Target:
    defaults = {"reached_by": "service", "url": None, "ca_bundle": None, "no_ca_bundle": False, "failure_policies": ()}
    server = ServerConfig(settings, [], None)
    return build_target({**defaults, "name": "webhooks", **options}, server, PARTS)


def test_the_default_bundle_is_the_development_ca(certs: Path) -> None:
    assert build(Settings(certs_dir=certs)).ca_bundle == (certs / "ca.pem").read_bytes()
    assert build(Settings(certs_dir=certs), no_ca_bundle=True).ca_bundle is None
    assert build(Settings(certs_dir=certs, sync_ca_bundle="webhooks")).ca_bundle is None


def test_a_synced_bundle_belongs_to_one_name(certs: Path) -> None:
    with pytest.raises(ConfigurationError, match="give --name other, or --ca-bundle"):
        build(Settings(certs_dir=certs, sync_ca_bundle="other"))


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({}, None),
        ({"url": "https://10.0.0.5:8443/"}, "https://10.0.0.5:8443"),
        ({"reached_by": "url", "url": "https://example.com/hooks"}, "https://example.com/hooks"),
        ({"reached_by": "localhost"}, "https://127.0.0.1:9443"),
    ],
)
def test_urls(certs: Path, options: dict[str, Any], url: str | None) -> None:
    assert build(Settings(certs_dir=certs, port=9443), **options).url == url


@pytest.mark.parametrize(
    "url", ["http://a", "https://", "https://a?b", "https://a#b", "https://a@b", "https://a:b", "https://[::1"]
)
def test_invalid_urls(certs: Path, url: str) -> None:
    with pytest.raises(click.UsageError, match="must have the form"):
        build(Settings(certs_dir=certs), url=url)


def test_failure_policies(certs: Path) -> None:
    target = build(Settings(certs_dir=certs), failure_policies=("Ignore", "a=Fail", "b=Ignore"))
    assert (target.failure_policy, target.failure_policies) == ("Ignore", {"a": "Fail", "b": "Ignore"})
    with pytest.raises(click.UsageError, match="a=ignore: must be Fail, Ignore"):
        build(Settings(certs_dir=certs), failure_policies=("a=ignore",))


def test_settings_and_policies_of_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "webhooks.yaml"
    file.write_text(
        "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\nserver: {port: 9443}\n"
        "policies: [{use: 'library:privileged'}]\n"
    )
    server = ServerConfig.load(file, (), None)
    assert (server.settings.port, [policy.name for policy in server.policies]) == (9443, ["privileged"])
    assert (server.settings.config, server.configuration is not None) == (file, True)


def test_policies_of_options() -> None:
    server = ServerConfig.load(None, ("library:privileged",), None)
    assert ([policy.name for policy in server.policies], server.configuration) == (["privileged"], None)
    assert server.settings == Settings(policies=("library:privileged",))
    with pytest.raises(click.UsageError, match="No policies"):
        ServerConfig.load(None, (), None)
    with pytest.raises(click.UsageError, match="mutually exclusive"):
        ServerConfig.load(Path("webhooks.yaml"), ("library:privileged",), None)
