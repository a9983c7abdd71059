"""``webhooks manifests``: write the manifests for a cluster, or compare them with what exists."""

from __future__ import annotations

import sys
from collections.abc import Collection
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from webhooks._version import __version__
from webhooks.cli.manifest_target import ServerConfig, build_target
from webhooks.errors import unwritable
from webhooks.kube.api_groups import MAX_TIMEOUT
from webhooks.manifests.target import LATEST_VERSION, PARTS, Part, ReachedBy, Target, Version

if TYPE_CHECKING:
    from webhooks.manifests.render import ManifestFile

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
        server = ServerConfig.load(command.config, command.policies, command.admission_config)
    parts = command.parts or PARTS
    target = build_target(options, server, parts)
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


def _render_files(server: ServerConfig, target: Target, parts: Collection[Part]) -> list[ManifestFile]:
    from webhooks.manifests.render import render_files
    from webhooks.manifests.server_files import ServerFiles, collect

    server_files = ServerFiles()
    if "server" in parts and target.reached_by == "service":
        server_files = collect(server.settings, server.policies, server.configuration)
    return render_files(server.settings, server.policies, server_files, target, parts)


def _build_exemption_notes(server: ServerConfig, target: Target) -> list[str]:
    """Return a note for each policy that is not called for all requests that it matches."""
    from webhooks.manifests.render import admission_webhooks

    return [note for webhook in admission_webhooks(server.policies, target) for note in webhook.exemption_notes(target)]


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
