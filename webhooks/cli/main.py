"""The command line. An error of the user is printed on standard error, without a traceback; the exit code is 2."""

import sys
from typing import Any

import click

from webhooks._version import __version__
from webhooks.cli.certs import certs
from webhooks.cli.config import check, schema
from webhooks.cli.health import health
from webhooks.cli.library import library
from webhooks.cli.manifests import manifests
from webhooks.cli.new import new
from webhooks.cli.review import review
from webhooks.cli.serve import serve
from webhooks.errors import ConfigurationError, printable


class _Group(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Print a ConfigurationError, one error per line."""
        try:
            return super().invoke(ctx)
        except ConfigurationError as error:
            for line in str(error).split("\n"):
                click.echo(f"webhooks: {printable(line)}", err=True)
            sys.exit(2)


@click.group(
    cls=_Group,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "auto_envvar_prefix": "WEBHOOKS",
    },
)
@click.version_option(__version__, prog_name="webhooks")
def main() -> None:
    """Answer the admission, authorization, token and image reviews of a cluster with Python functions."""


for command in (certs, check, health, library, manifests, new, review, schema, serve):
    main.add_command(command)
