"""``webhooks manifests``: write the manifests for a cluster, or compare them with what exists."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

import click

from webhooks._version import __version__
from webhooks.errors import ConfigurationError, unwritable
from webhooks.kube.api_groups import MAX_TIMEOUT
from webhooks.manifests.target import LATEST_VERSION, PARTS, FailurePolicy, Part, ReachedBy, Target, Version

if TYPE_CHECKING:
    from webhooks.config.file import Configuration
    from webhooks.manifests.render import ManifestFile
    from webhooks.policy.model import AnyPolicy
    from webhooks.settings import Settings

_FILE = click.Path(path_type=Path, dir_okay=False)


class _VersionType(click.ParamType[Version]):
    """A version of Kubernetes, such as ``1.37`` or ``v1.37.2``."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Version:
        """Parse a version."""
        if isinstance(value, Version):
            return value
        major, _, rest = str(value).removeprefix("v").partition(".")
        minor = rest.partition(".")[0]
        if not (major.isdecimal() and minor.isdecimal()):
            self.fail(f"{value!r} is not a version, such as {LATEST_VERSION}", param, ctx)
        return Version(int(major), int(minor))


@click.command(epilog="Example: webhooks manifests --policies library:required_labels --ca-bundle certs/ca.pem")
@click.option("--config", type=_FILE, help="The WebhookConfiguration (YAML) of the server.")
@click.option("--policies", multiple=True, metavar="PATH_OR_NAME", help="The policies, as for serve. Repeatable.")
@click.option("--admission-config", type=_FILE, help="The AdmissionConfiguration of the server, as for serve.")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder for the files. Default: print to standard output.",
)
@click.option(
    "--only", "parts", type=click.Choice(PARTS), multiple=True, help="Write only this part. Default: all. Repeatable."
)
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing. Print how the folder of -o, or else the cluster, differs; exit with 1 if it does.",
)
@click.option("--kubeconfig", type=_FILE, help="The kubeconfig for --check. Default: $KUBECONFIG, or ~/.kube/config.")
@click.option("--context", metavar="NAME", help="The context of the kubeconfig. Default: its current context.")
@click.option(
    "--name",
    default=Target.name,
    show_default=True,
    help="The name of the webhook configurations, and of the server's objects.",
)
@click.option("--namespace", default=Target.namespace, show_default=True, help="The namespace of the server.")
@click.option(
    "--reached-by",
    type=click.Choice(get_args(ReachedBy)),
    default=Target.reached_by,
    show_default=True,
    help="How API servers reach the admission webhooks.",
)
@click.option("--url", help="The URL of the server outside of the cluster, such as https://10.0.0.5:8443.")
@click.option(
    "--ca-bundle",
    type=_FILE,
    help="The CA of the serving certificate (PEM). Default: ca.pem in the certificates folder.",
)
@click.option("--no-ca-bundle", is_flag=True, help="Let cert-manager, or serve --sync-ca-bundle, set caBundle.")
@click.option(
    "--failure-policy",
    "failure_policies",
    multiple=True,
    metavar="[POLICY=]Fail|Ignore",
    help="What happens to requests if the server does not respond. Default: as each policy sets. Repeatable.",
)
@click.option(
    "--timeout",
    type=click.IntRange(1, MAX_TIMEOUT),
    help="The timeout of admission webhooks in seconds. Default: one that suits the policies.",
)
@click.option("--per-policy", is_flag=True, help="Write a webhook for each policy.")
@click.option(
    "--exempt-namespace",
    "exempt_namespaces",
    multiple=True,
    metavar="NAMESPACE",
    help="Exempt a namespace, such as the network plugin's, and its service accounts during startup. Repeatable.",
)
@click.option(
    "--include-namespace",
    "included_namespaces",
    multiple=True,
    metavar="NAMESPACE",
    help="Do not exempt a namespace that is exempt by default. Repeatable.",
)
@click.option("--static", is_flag=True, help="Write webhook configurations that API servers read from files.")
@click.option(
    "--cluster-version",
    "version",
    type=_VersionType(),
    default=str(LATEST_VERSION),
    show_default=True,
    help="The Kubernetes version of the cluster.",
)
@click.option(
    "--image", default=f"cluster-webhooks:{__version__}", show_default=True, help="The container image of the server."
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 100),
    default=Target.replicas,
    show_default=True,
    help="The number of replicas of the server.",
)
@click.option(
    "--api-server-dir",
    "api_server_folder",
    default=Target.api_server_folder,
    show_default=True,
    help="The folder for the API server's files on its host.",
)
def manifests(**options: Any) -> None:
    """Write the manifests that let a cluster call a server.

    They are derived from the policies of the server: its own objects, its webhook configurations, and the files for
    the flags of an API server. Manifests that could lock the cluster out are rejected, with all reasons.
    """
    command = _Command(**{name: options.pop(name) for name in _Command.__dataclass_fields__})
    with redirect_stdout(sys.stderr):  # policies may print while they are loaded
        server = _ServerConfig.load(command)
    parts = command.parts or PARTS
    target = _build_target(options, server, parts)
    files = _render_files(server, target, parts)
    if "webhook-configurations" in parts or target.static:
        for note in _build_exemption_notes(server, target):
            click.echo(f"webhooks: {note}", err=True)
    if command.check:
        differences = _find_differences(command, files)
        for line in differences:
            click.echo(line)
        sys.exit(1 if differences else 0)
    if command.folder is None:
        _print_files(files)
    else:
        _write_files(command.folder, files)


@dataclass(frozen=True)
class _Command:
    """The options that do not describe the target."""

    config: Path | None
    policies: tuple[str, ...]
    admission_config: Path | None
    folder: Path | None
    parts: tuple[Part, ...]
    check: bool
    kubeconfig: Path | None
    context: str | None


@dataclass(frozen=True)
class _ServerConfig:
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
    def load(cls, command: _Command) -> _ServerConfig:
        """Load the settings and policies of a configuration file, or of options."""
        from webhooks.config import file
        from webhooks.plugins import loader as plugin_loader
        from webhooks.policy import loader as policy_loader
        from webhooks.policy.registry import Registry
        from webhooks.settings import Settings

        if command.config is not None and command.policies:
            raise click.UsageError(
                "--config and --policies are mutually exclusive: list the policies in the configuration."
            )
        configuration = None if command.config is None else file.read(command.config)
        settings = Settings() if configuration is None else replace(configuration.settings, config=command.config)
        admission_config = command.admission_config or settings.admission_config
        settings = replace(settings, policies=command.policies, admission_config=admission_config)
        policies = list(policy_loader.load(command.policies)) if configuration is None else configuration.load()
        if admission_config is not None:
            policies += plugin_loader.load(admission_config, plugin_loader.PluginContext())
        if not policies:
            raise click.UsageError("No policies: give --config, --policies or --admission-config.")
        return cls(settings, list(Registry(policies)), configuration)


def _render_files(server: _ServerConfig, target: Target, parts: Collection[Part]) -> list[ManifestFile]:
    from webhooks.manifests.render import render_files
    from webhooks.manifests.server_files import ServerFiles, collect

    server_files = ServerFiles()
    if "server" in parts and target.reached_by == "service":
        server_files = collect(server.settings, server.policies, server.configuration)
    return render_files(server.settings, server.policies, server_files, target, parts)


def _build_exemption_notes(server: _ServerConfig, target: Target) -> list[str]:
    """Return a note for each policy that is not called for all requests that it matches."""
    from webhooks.manifests.render import admission_webhooks

    return [note for webhook in admission_webhooks(server.policies, target) for note in webhook.exemption_notes(target)]


def _build_target(options: Mapping[str, Any], server: _ServerConfig, parts: Collection[Part]) -> Target:
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
    path: Path | None, no_bundle: bool, server: _ServerConfig, name: str, parts: Collection[Part]
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


def _print_files(files: list[ManifestFile]) -> None:
    click.echo("---\n".join(str(file) for file in files if file.objects), nl=False)
    for file in files:
        if not file.objects:
            click.echo(f"webhooks: {file.path} is not an object of the cluster: give -o DIR to write it", err=True)


def _write_files(folder: Path, files: list[ManifestFile]) -> None:
    for file in files:
        path = folder / file.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(file))
        except OSError as error:
            raise unwritable(path, error) from None
        click.echo(f"wrote {path}")


def _find_differences(command: _Command, files: list[ManifestFile]) -> list[str]:
    from webhooks.manifests.drift import compare_cluster, compare_folder

    if command.folder is not None:
        return list(compare_folder(command.folder, files))
    from webhooks.cluster import connect

    with connect(command.kubeconfig, command.context) as client:
        return list(compare_cluster(client, files))
