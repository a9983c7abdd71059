"""The command line. A mistake of its user is a line on standard error and exit code 2, never a traceback."""

import sys
from pathlib import Path
from typing import Any

import click

from webhooks import __version__
from webhooks.errors import ConfigurationError
from webhooks.settings import Settings


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="webhooks")
def main() -> None:
    """Answer a cluster's admission, authorization, token and image reviews by plain Python functions."""


_PORT = click.IntRange(0, 65535)
_FILE = click.Path(path_type=Path, dir_okay=False)


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
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes that answer.")
def serve(**options: Any) -> None:
    """Answer reviews until a signal ends it.

    Prints one line, "ready https://HOST:PORT", when it answers.
    """
    from webhooks import serving, workers  # here, since they take longer to import than the help takes to show

    options["ops_port"] = options["ops_port"] or None
    settings = Settings(**options)
    if not settings.policies and settings.admission_config is None:
        raise click.UsageError("Nothing to serve: give --policies, --admission-config, or both.")
    try:
        (serving if settings.workers == 1 else workers).run(settings)
    except ConfigurationError as error:
        for line in str(error).split("\n"):
            click.echo(f"webhooks: {line}", err=True)
        sys.exit(2)


def _names(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    from webhooks.loading import library

    return [name for name in library() if name.startswith(typed)]


@main.command(epilog="Try it: webhooks library required_labels")
@click.argument("name", required=False, shell_complete=_names)
@click.option("--markdown", is_flag=True, help="As a page for reading in a browser.")
def library(name: str | None, markdown: bool) -> None:
    """List the ready policies, or show all about the one of that NAME."""
    from webhooks import catalogue

    try:
        found = catalogue.entries() if name is None else [catalogue.entry(name)]
    except ConfigurationError as error:
        click.echo(f"webhooks: {error}", err=True)
        sys.exit(2)
    if markdown:
        click.echo(catalogue.page(found), nl=False)
    else:
        click.echo(catalogue.listing(found) if name is None else catalogue.text(found[0]), nl=False)
