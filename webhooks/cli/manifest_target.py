"""The server and the target of ``webhooks manifests``, from its options."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from webhooks.errors import ConfigurationError
from webhooks.manifests.target import FailurePolicy, Part, ReachedBy, Target

if TYPE_CHECKING:
    from webhooks.config.file import Configuration
    from webhooks.policy.model import AnyPolicy
    from webhooks.settings import Settings


@dataclass(frozen=True)
class ServerConfig:
    """The server that the manifests are for.

    Attributes:
        settings: its settings.
        policies: its policies.
        configuration: the file with both; None if they come from options.
    """

    settings: Settings
    policies: list[AnyPolicy]
    configuration: Configuration | None

    @classmethod
    def load(cls, config: Path | None, sources: tuple[str, ...], admission_config: Path | None) -> ServerConfig:
        """Load the settings and policies of a configuration file, or of options.

        Args:
            config: the configuration file.
            sources: the sources of policies.
            admission_config: the AdmissionConfiguration; None for that of the configuration file.

        Raises:
            ConfigurationError: a file or a policy is invalid.
        """
        from webhooks.config import file
        from webhooks.plugins import loader as plugin_loader
        from webhooks.policy import loader as policy_loader
        from webhooks.policy.registry import Registry
        from webhooks.settings import Settings

        if config is not None and sources:
            raise click.UsageError(
                "--config and --policies are mutually exclusive: list the policies in the configuration."
            )
        configuration = None if config is None else file.read(config)
        settings = Settings() if configuration is None else replace(configuration.settings, config=config)
        admission_config = admission_config or settings.admission_config
        settings = replace(settings, policies=sources, admission_config=admission_config)
        policies = list(policy_loader.load(sources)) if configuration is None else configuration.load()
        if admission_config is not None:
            policies += plugin_loader.load(admission_config, plugin_loader.PluginContext())
        if not policies:
            raise click.UsageError("No policies: give --config, --policies or --admission-config.")
        return cls(settings, list(Registry(policies)), configuration)


def build_target(options: Mapping[str, Any], server: ServerConfig, parts: Collection[Part]) -> Target:
    """Build the target.

    Args:
        options: the options that describe the target, by name.
        server: the server.
        parts: the parts to write.

    Raises:
        ConfigurationError: the CA of the serving certificate cannot be loaded.
    """
    fields = dict(options)
    failure_policy, failure_policies = _parse_failure_policies(fields.pop("failure_policies"))
    url = _resolve_url(fields["reached_by"], fields.pop("url"), server.settings.port)
    ca_bundle = _load_ca_bundle(fields.pop("ca_bundle"), fields.pop("no_ca_bundle"), server, fields["name"], parts)
    return Target(
        url=url,
        ca_bundle=ca_bundle,
        failure_policy=failure_policy,
        failure_policies=failure_policies,
        **fields,
    )


def _parse_failure_policies(texts: tuple[str, ...]) -> tuple[FailurePolicy | None, dict[str, FailurePolicy]]:
    """Parse the failure policy of all policies, and those of single policies by name."""
    failure_policies: dict[str, FailurePolicy] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        if value == "Fail":
            failure_policies[name] = "Fail"
        elif value == "Ignore":
            failure_policies[name] = "Ignore"
        else:
            raise click.UsageError(f"--failure-policy {text}: must be Fail, Ignore, POLICY=Fail or POLICY=Ignore.")
    return failure_policies.pop("", None), failure_policies


def _resolve_url(reached_by: ReachedBy, url: str | None, port: int) -> str | None:
    if reached_by == "localhost":
        if url is not None:
            raise click.UsageError("--reached-by localhost and --url are mutually exclusive.")
        return f"https://127.0.0.1:{port}"
    if reached_by == "url" and url is None:
        raise click.UsageError("--reached-by url requires --url.")
    if url is not None and not _is_valid_url(url):
        raise click.UsageError(f"--url {url}: must have the form https://HOST[:PORT][/PATH].")
    return None if url is None else url.rstrip("/")


def _is_valid_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError for an invalid port
    except ValueError:
        return False
    has_more = parts.query or parts.fragment or "@" in parts.netloc
    return parts.scheme == "https" and bool(parts.hostname) and not has_more


def _load_ca_bundle(
    path: Path | None, no_bundle: bool, server: ServerConfig, name: str, parts: Collection[Part]
) -> bytes | None:
    """Load the CA of the serving certificate; None if another program sets caBundle.

    Args:
        path: the file from the options; None for the default.
        no_bundle: whether caBundle is to be omitted.
        server: the server; it may set caBundle itself.
        name: the name of the webhook configurations.
        parts: the parts to write.
    """
    from webhooks.certificates import ca_bundle

    if no_bundle:
        if path is not None:
            raise click.UsageError("--ca-bundle and --no-ca-bundle are mutually exclusive.")
        return None
    settings = server.settings
    if path is None and settings.sync_ca_bundle is not None:
        _check_synced_ca_bundle(settings.sync_ca_bundle, server.policies, name, parts)
        return None
    path = path or ca_bundle.path_for(settings.certs_dir, settings.tls_cert)
    if not path.is_file():
        raise ConfigurationError(
            f"{path}: no such file. API servers need the CA of the serving certificate: create one with webhooks certs "
            "issue NAME.NAMESPACE.svc, give --ca-bundle, or let another program set caBundle: --no-ca-bundle"
        )
    return ca_bundle.to_pem(ca_bundle.read(path))


def _check_synced_ca_bundle(
    synced_name: str, policies: Collection[AnyPolicy], name: str, parts: Collection[Part]
) -> None:
    """Check that a server that sets caBundle itself (syncCaBundle) does so wherever it is needed."""
    from webhooks.manifests.apiserver_config import CALLBACKS

    if synced_name != name and "webhook-configurations" in parts:
        raise ConfigurationError(
            f"the server sets caBundle only in webhook configurations with the name {synced_name!r} (syncCaBundle), "
            f"not {name!r}, so API servers would trust no certificate: give --name {synced_name}, or --ca-bundle"
        )
    if "api-server" in parts and any(policy.kind in CALLBACKS for policy in policies):
        raise ConfigurationError(
            "the server sets caBundle in its webhook configurations (syncCaBundle), but not in the files of API "
            "servers, so they would trust no certificate: give --ca-bundle"
        )
