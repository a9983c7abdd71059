"""``webhooks manifests``: write what a cluster needs, or compare it with what is there."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

import click

from webhooks._version import __version__
from webhooks.errors import ConfigurationError
from webhooks.kube.registered import MAX_TIMEOUT
from webhooks.manifests.target import CURRENT, PARTS, By, FailurePolicy, Target, Version

if TYPE_CHECKING:
    from webhooks.config.file import Configuration
    from webhooks.manifests.render import File
    from webhooks.policy.model import AnyPolicy
    from webhooks.settings import Settings

_FILE = click.Path(path_type=Path, dir_okay=False)


class _Version(click.ParamType[Version]):
    """A version of Kubernetes."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Version:
        """The version."""
        if isinstance(value, Version):
            return value
        major, _, rest = str(value).removeprefix("v").partition(".")
        minor = rest.partition(".")[0]
        if not (major.isdecimal() and minor.isdecimal()):
            self.fail(f"{value!r} is no version, such as {CURRENT}", param, ctx)
        return Version(int(major), int(minor))


@click.command(epilog="Try it: webhooks manifests --policies library:required_labels --ca-bundle certs/ca.pem")
@click.option("--config", type=_FILE, help="A WebhookConfiguration (YAML), as the server has it.")
@click.option("--policies", multiple=True, metavar="PATH_OR_NAME", help="As for serve. Repeat it for more.")
@click.option("--admission-config", type=_FILE, help="As for serve.")
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False), help="Where to; else stdout."
)
@click.option("--only", "parts", type=click.Choice(PARTS), multiple=True, help="Write this part alone. Repeatable.")
@click.option(
    "--check", is_flag=True, help="Write nothing; tell how -o DIR, or else the cluster, differs. Exit code 1."
)
@click.option("--kubeconfig", type=_FILE, help="The cluster to compare with; else $KUBECONFIG or ~/.kube/config.")
@click.option("--context", metavar="NAME", help="Which context of it; else the current one.")
@click.option(
    "--name", default=Target.name, show_default=True, help="Of the registrations, and all that runs the server."
)
@click.option("--namespace", default=Target.namespace, show_default=True, help="Where the server runs.")
@click.option(
    "--reached-by",
    "by",
    type=click.Choice(get_args(By)),
    default="service",
    show_default=True,
    help="How it is reached.",
)
@click.option("--url", help="Where the server answers outside of the cluster, such as https://10.0.0.5:8443.")
@click.option(
    "--ca-bundle", type=_FILE, help="Who signs its certificate (PEM); else ca.pem of the certificates' folder."
)
@click.option("--no-ca-bundle", is_flag=True, help="Leave caBundle to cert-manager, or to serve --sync-ca-bundle.")
@click.option(
    "--failure-policy",
    "failures",
    multiple=True,
    metavar="[POLICY=]Fail|Ignore",
    help="What requests come to while the server does not answer; else as the policies say. Repeatable.",
)
@click.option(
    "--timeout", type=click.IntRange(1, MAX_TIMEOUT), help="Seconds to wait for admission; else what policies need."
)
@click.option("--per-policy", is_flag=True, help="Register each policy by itself.")
@click.option(
    "--exempt-namespace",
    "exempted",
    multiple=True,
    metavar="NAMESPACE",
    help="Ask about nothing there, nor of who runs there when a cluster starts: the network's namespace. Repeatable.",
)
@click.option(
    "--include-namespace",
    "covered",
    multiple=True,
    metavar="NAMESPACE",
    help="Ask about an exempt namespace. Repeatable.",
)
@click.option("--static", is_flag=True, help="Have the API server read its registrations from files.")
@click.option(
    "--cluster-version", "version", type=_Version(), default=str(CURRENT), show_default=True, help="Kubernetes'."
)
@click.option("--image", default=f"cluster-webhooks:{__version__}", show_default=True, help="That runs the server.")
@click.option("--replicas", type=click.IntRange(1, 100), default=Target.replicas, show_default=True, help="How many.")
@click.option(
    "--api-server-dir",
    "api_server_folder",
    default=Target.api_server_folder,
    show_default=True,
    help="Where the API server's files will lie on its host.",
)
def manifests(**options: Any) -> None:
    """Write what a cluster needs to ask a server, as it follows from the server's policies.

    That is the server's own objects, its registrations, and the files that an API server's flags name. All is refused,
    with the reasons, that would lock the cluster out.
    """
    job = _Job(**{name: options.pop(name) for name in _Job.__dataclass_fields__})
    with redirect_stdout(sys.stderr):  # what policies print when they are loaded is none of what is written
        told = _Told.of(job)
    parts = job.parts or PARTS
    target = _target(options, told, parts)
    files = _files(told, target, parts)
    for line in _narrowed(told, target, parts):
        click.echo(f"webhooks: {line}", err=True)
    if job.check:
        lines = list(_drift(job, files))
        for line in lines:
            click.echo(line)
        sys.exit(1 if lines else 0)
    if job.folder is None:
        click.echo("---\n".join(str(file) for file in files if file.objects), nl=False)
        for file in files:
            if not file.objects:
                click.echo(f"webhooks: {file.path} is no object: it is written with -o DIR", err=True)
        return
    _write(job.folder, files)


@dataclass(frozen=True)
class _Job:
    """What is to be done, by options."""

    config: Path | None
    policies: tuple[str, ...]
    admission_config: Path | None
    folder: Path | None
    parts: tuple[str, ...]
    check: bool
    kubeconfig: Path | None
    context: str | None


@dataclass(frozen=True)
class _Told:
    """A server: what it is told, and the policies that it then has."""

    settings: Settings
    policies: list[AnyPolicy]
    configuration: Configuration | None

    @classmethod
    def of(cls, job: _Job) -> _Told:
        """What a configuration or options say."""
        from dataclasses import replace

        from webhooks.config import file as configured
        from webhooks.plugins import loader
        from webhooks.policy import loader as loading
        from webhooks.policy.registry import Registry
        from webhooks.settings import Settings

        if job.config is not None and job.policies:
            raise click.UsageError("--config and --policies: name the policies in the configuration.")
        configuration = None if job.config is None else configured.read(job.config)
        settings = Settings() if configuration is None else replace(configuration.settings, config=job.config)
        admission_config = job.admission_config or settings.admission_config
        settings = replace(settings, policies=job.policies, admission_config=admission_config)
        policies = list(loading.load(job.policies)) if configuration is None else configuration.load()
        if admission_config is not None:
            policies += loader.load(admission_config, loader.PluginContext())
        if not policies:
            raise click.UsageError("Nothing to write: give --config, --policies or --admission-config.")
        return cls(settings, list(Registry(policies)), configuration)


def _files(told: _Told, target: Target, parts: tuple[str, ...]) -> list[File]:
    from webhooks.manifests import render as files
    from webhooks.manifests import server_files

    found = server_files.Sources()
    if "server" in parts and target.by == "service":
        found = server_files.collect(told.settings, told.policies, told.configuration)
    return files.files(told.settings, told.policies, found, target, parts)


def _narrowed(told: _Told, target: Target, parts: tuple[str, ...]) -> list[str]:
    """What is to be known of policies that are asked less often than they say."""
    from webhooks.manifests import render as files

    written = "webhook-configurations" in parts or target.static
    return [line for each in files.entries(told.policies, target) for line in each.narrowed(target)] if written else []


def _target(options: Mapping[str, Any], told: _Told, parts: tuple[str, ...]) -> Target:
    chosen = dict(options)
    failure_policy, failure_policies = _failures(chosen.pop("failures"))
    by, url = chosen.pop("by"), chosen.pop("url")
    if by == "localhost":
        if url is not None:
            raise click.UsageError("--reached-by localhost and --url: one of them says where the server answers.")
        url = f"https://127.0.0.1:{told.settings.port}"
    if by == "url" and url is None:
        raise click.UsageError("--reached-by url: give --url.")
    if url is not None:
        url = _checked_url(url)
    bundle = _bundle(chosen.pop("ca_bundle"), chosen.pop("no_ca_bundle"), told, chosen["name"], parts)
    return Target(
        by=by,
        url=url,
        ca_bundle=bundle,
        failure_policy=failure_policy,
        failure_policies=failure_policies,
        **chosen,
    )


def _failures(texts: tuple[str, ...]) -> tuple[FailurePolicy | None, dict[str, FailurePolicy]]:
    """What is said of all policies, and of single ones."""
    found: dict[str, FailurePolicy] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        if value == "Fail":
            found[name] = "Fail"
        elif value == "Ignore":
            found[name] = "Ignore"
        else:
            raise click.UsageError(f"--failure-policy {text}: it is Fail, Ignore, POLICY=Fail or POLICY=Ignore.")
    return found.pop("", None), found


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme == "https" and parts.hostname and not (parts.query or parts.fragment or "@" in parts.netloc)
        _ = parts.port
    except ValueError:
        good = False
    if not good:
        raise click.UsageError(f"--url {url}: an API server calls https://HOST[:PORT][/PATH], and nothing else.")
    return url.rstrip("/")


def _bundle(given: Path | None, none: bool, told: _Told, name: str, parts: tuple[str, ...]) -> bytes | None:
    """Who is to be trusted; None where somebody else fills that in, such as the server in registrations of a name."""
    from webhooks.certificates import ca_bundle as bundle
    from webhooks.manifests.apiserver_config import CALLBACKS

    if none:
        if given is not None:
            raise click.UsageError("--ca-bundle and --no-ca-bundle: one of them.")
        return None
    settings = told.settings
    managed = settings.sync_ca_bundle
    if given is None and managed is not None:
        if managed != name and "webhook-configurations" in parts:
            raise ConfigurationError(
                f"the server fills caBundle in where the name is {managed!r} (syncCaBundle), which these "
                f"registrations have not, so the API server would trust nobody: give --name {managed}, or --ca-bundle"
            )
        if "api-server" in parts and any(policy.kind in CALLBACKS for policy in told.policies):
            raise ConfigurationError(
                "the server fills caBundle into its registrations (syncCaBundle), but not into the API "
                "server's own files, by which it would trust nobody: give --ca-bundle"
            )
        return None
    path = given or bundle.of(settings.certs_dir, settings.tls_cert)
    if not path.is_file():
        raise ConfigurationError(
            f"{path}: no such file, and the API server has to know who signs the server's certificate: make one with "
            "webhooks certs issue NAME.NAMESPACE.svc, name it with --ca-bundle, or leave it to others: --no-ca-bundle"
        )
    return bundle.written(bundle.read(path))


def _write(folder: Path, files: list[File]) -> None:
    for file in files:
        path = folder / file.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(file))
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None
        click.echo(f"wrote {path}")


def _drift(job: _Job, files: list[File]) -> list[str]:
    from webhooks.manifests import drift

    if job.folder is not None:
        return list(drift.of_folder(job.folder, files))
    from webhooks.cluster import connect

    with connect(job.kubeconfig, job.context) as cluster:
        return list(drift.of_cluster(cluster, files))
