"""The command line. A mistake of its user is a line on standard error and exit code 2, never a traceback."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click

from webhooks import __version__
from webhooks.certificates import commands
from webhooks.durations import parse_duration
from webhooks.errors import ConfigurationError
from webhooks.limits import Limits
from webhooks.settings import Extent, Level, Settings


class _Commands(click.Group):
    """Commands whose users' mistakes are told in a line each."""

    def invoke(self, context: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(context)
        except ConfigurationError as error:
            for line in str(error).split("\n"):
                click.echo(f"webhooks: {line}", err=True)
            sys.exit(2)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="webhooks")
def main() -> None:
    """Answer a cluster's admission, authorization, token and image reviews by plain Python functions."""


main.add_command(commands.certs)

_PORT = click.IntRange(0, 65535)
_FILE = click.Path(path_type=Path, dir_okay=False)


class _Duration(click.ParamType[float]):
    """Seconds, written as such or as Go writes durations."""

    name = "duration"

    def __init__(self, least: float = 0.0, most: float = math.inf) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds."""
        text = str(value)
        try:
            seconds = parse_duration(f"{text}s" if text[-1:].isdigit() else text) / 1e9
        except ValueError:
            seconds = -1.0
        if seconds < 0:
            self.fail(f"{text!r} is no duration, such as 10s or 1m30s", param, ctx)
        if not self._least <= seconds <= self._most:
            self.fail(f"{text!r} is not between {self._least:g}s and {self._most:g}s", param, ctx)
        return seconds


_DURATION = _Duration()
_COUNT = click.IntRange(1, 1_000_000)
_SIZE = click.IntRange(1024, 64 * 1024**2)
_PATIENCE = _Duration(0.1, 60)  # the most is the event loop's own patience with TLS
_LIMITS: dict[str, tuple[click.ParamType[int] | click.ParamType[float], str]] = {
    "max_connections": (_COUNT, "Connections at each port. When it is full, those that wait longest make room."),
    "max_connections_per_peer": (_COUNT, "Connections with one address."),
    "max_in_flight": (_COUNT, "Reviews whose policies are waited for at once; those that run in place do not count."),
    "max_queue": (click.IntRange(0, 1_000_000), "Reviews that wait for their turn; more are answered with 429."),
    "max_body": (_SIZE, "Bytes of a review."),
    "max_headers": (_COUNT, "Headers of a request."),
    "max_header_bytes": (click.IntRange(1024, 1024**2), "Bytes of a request's headers."),
    "tls_timeout": (_PATIENCE, "For a TLS handshake."),
    "header_timeout": (_PATIENCE, "For a request's headers."),
    "body_timeout": (_PATIENCE, "For a request's body, and for taking an answer."),
}


def _limits(command: Callable[..., None]) -> Callable[..., None]:
    """Options for what a process takes."""
    for name, (type_, help_) in reversed(_LIMITS.items()):
        flag, default = f"--{name.replace('_', '-')}", getattr(Limits, name)
        if type_ is _PATIENCE:
            default = f"{default:g}s"
        command = click.option(flag, name, type=type_, default=default, show_default=True, help=help_)(command)
    return command


@main.command(epilog="Try it: webhooks serve --policies library:required_labels")
@click.option(
    "--policies",
    multiple=True,
    metavar="PATH_OR_NAME",
    help="A policy file, a folder of them, or library:NAME for a ready one. Repeat it for more.",
)
@click.option(
    "--admission-config",
    type=_FILE,
    help="An AdmissionConfiguration that names plugins, such as EventRateLimit, with their configuration (YAML).",
)
@click.option("--host", default=Settings.host, show_default=True, help="The address to listen at.")
@click.option("--port", type=_PORT, default=Settings.port, show_default=True, help="For reviews, over TLS; 0 for any.")
@click.option(
    "--ops-port",
    type=_PORT,
    default=Settings.ops_port,
    show_default=True,
    help="For health and metrics, plain HTTP; 0 for none.",
)
@click.option(
    "--certs-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Settings.certs_dir,
    show_default=True,
    help="Where a development authority and certificate are kept, or made if no certificate is given.",
)
@click.option("--tls-cert", type=_FILE, help="The serving certificate with its chain (PEM).")
@click.option("--tls-key", type=_FILE, help="Its private key (PEM).")
@click.option("--client-ca", type=_FILE, help="Only take callers with a certificate that one of these signed (PEM).")
@click.option(
    "--allow-client",
    multiple=True,
    metavar="NAME",
    help="Of those, only ones for this common name, DNS name, URI, email or IP address. Repeat it for more.",
)
@click.option(
    "--token-file", type=_FILE, help="Only take callers with a bearer token of this file: lines of TOKEN,USER; or YAML."
)
@click.option("--oidc-issuer", metavar="URL", help="Only take callers with a bearer token of this issuer.")
@click.option("--oidc-audience", metavar="TEXT", help="Of those, only ones that are for this audience.")
@click.option(
    "--oidc-subject", multiple=True, metavar="TEXT", help="Of those, only ones of this subject. Repeat it for more."
)
@click.option("--oidc-ca", type=_FILE, help="Who signs the issuer's certificate (PEM); else whom this host trusts.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes that answer.")
@click.option(
    "--shutdown-delay",
    type=_DURATION,
    default=Settings.shutdown_delay,
    show_default="10s",
    help="From SIGTERM until nobody is let in any more: time for callers to learn that the server is not ready.",
)
@click.option(
    "--grace",
    type=_DURATION,
    default=Settings.grace,
    show_default="50s",
    help="For open reviews and connections to end after that.",
)
@click.option(
    "--log-level",
    type=click.Choice(get_args(Level)),
    default=Settings.log_level,
    show_default=True,
    help="Records of the log below it are left out.",
)
@click.option(
    "--decision-log",
    type=click.Choice(get_args(Extent)),
    default=Settings.decision_log,
    show_default=True,
    help="Which reviews are written to the log, with what became of them.",
)
@click.option("--tracing", is_flag=True, help="Send spans of reviews and policies to where OTEL_* variables say.")
@_limits
def serve(**options: Any) -> None:
    """Answer reviews until a signal ends it.

    Prints one line, "ready https://HOST:PORT", when it answers.
    """
    from webhooks import serving, workers  # here, since they take longer to import than the help takes to show

    options["ops_port"] = options["ops_port"] or None
    limits = Limits(**{name: options.pop(name) for name in _LIMITS})
    settings = Settings(limits=limits, **options)
    if not settings.policies and settings.admission_config is None:
        raise click.UsageError("Nothing to serve: give --policies, --admission-config, or both.")
    (serving if settings.workers == 1 else workers).run(settings)


@main.command(epilog="Try it: webhooks review --policies library:required_labels manifests/")
@click.argument("manifests", nargs=-1, required=True)
@click.option(
    "--policies",
    multiple=True,
    required=True,
    metavar="PATH_OR_NAME",
    help="A policy file, a folder of them, or library:NAME for a ready one. Repeat it for more.",
)
@click.option(
    "--operation",
    type=click.Choice(["CREATE", "UPDATE", "DELETE"]),
    help="What is done with the objects. Unless given, those among --old are updated and others created.",
)
@click.option("--user", default="reviewer", show_default=True, help="Who does it.")
@click.option(
    "--group", "groups", multiple=True, help="A group of the user, beside system:authenticated. Repeat it for more."
)
@click.option(
    "--old",
    multiple=True,
    metavar="PATH",
    help="The stored objects, a file or folder; found by kind, namespace and name. Repeat it for more.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "junit", "sarif", "patched"]),
    default="table",
    show_default=True,
    help="How to tell what was found; patched gives the allowed objects as they would be stored.",
)
def review(**options: Any) -> None:
    """Try policies on MANIFESTS: files, folders, or - for standard input.

    Exits with 0 where all is allowed, 1 where something is denied, 2 where something cannot be read.
    """
    from webhooks.reviewing import command

    try:
        code = command.run(command.Job(sources=options.pop("manifests"), **options))
    except ConfigurationError as error:
        for line in str(error).split("\n"):
            click.echo(f"webhooks: {line}", err=True)
        sys.exit(2)
    sys.exit(code)


def _names(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    from webhooks.loading import library

    return [name for name in library() if name.startswith(typed)]


@main.command(epilog="Try it: webhooks library required_labels")
@click.argument("name", required=False, shell_complete=_names)
@click.option("--markdown", is_flag=True, help="As a page for reading in a browser.")
def library(name: str | None, markdown: bool) -> None:
    """List the ready policies, or show all about the one of that NAME."""
    from webhooks import catalogue

    found = catalogue.entries() if name is None else [catalogue.entry(name)]
    if markdown:
        click.echo(catalogue.page(found), nl=False)
    else:
        click.echo(catalogue.listing(found) if name is None else catalogue.text(found[0]), nl=False)


@main.command(epilog="Try it: webhooks new owner_label --dir policies && pytest policies")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["validating", "mutating", "authorizing", "authenticating", "image_policy"]),
    default="validating",
    show_default=True,
    help="What it decides about.",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    show_default=True,
    help="Where to; made if there is none.",
)
def new(name: str, kind: Any, folder: Path) -> None:
    """Begin a policy of that NAME: its file, cases beside it and a test, which pass as they are."""
    from webhooks import scaffolding

    try:
        files = scaffolding.write(name, kind, folder)
    except ConfigurationError as error:
        click.echo(f"webhooks: {error}", err=True)
        sys.exit(2)
    for file in files:
        click.echo(file)
