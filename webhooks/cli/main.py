"""The command line. A mistake of its user is a line on standard error and exit code 2, never a traceback."""

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from webhooks._version import __version__
from webhooks.cli import certs
from webhooks.cli import options as flags
from webhooks.cli.manifests import manifests
from webhooks.errors import ConfigurationError


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


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "auto_envvar_prefix": "WEBHOOKS"}


@click.group(cls=_Commands, context_settings=_CONTEXT)
@click.version_option(__version__, prog_name="webhooks")
def main() -> None:
    """Answer a cluster's admission, authorization, token and image reviews by plain Python functions."""


main.add_command(certs.certs)
main.add_command(manifests)

_FILE = click.Path(path_type=Path, dir_okay=False)


def _read(context: click.Context, _parameter: click.Parameter, config: Path | None) -> Path | None:
    """Have a configuration say what neither a flag nor the environment says."""
    if config is not None:
        from webhooks.config import file as configured

        context.default_map = flags.defaults(configured.read(config).settings)
    return config


@main.command(
    epilog="Try it: webhooks serve --policies library:required_labels. "
    "Each option can be a variable too: WEBHOOKS_SERVE_PORT for --port."
)
@flags.flags(_read)
def serve(**options: Any) -> None:
    """Answer reviews until a signal ends it.

    Prints one line, "ready https://HOST:PORT", when it answers.
    """
    from webhooks.server import (
        process,  # here, since they take longer to import than the help takes to show
        supervisor,
    )

    settings = flags.settings(options)
    if not settings.policies and settings.admission_config is None and settings.config is None:
        raise click.UsageError("Nothing to serve: give --config, --policies or --admission-config.")
    (process if settings.workers == 1 else supervisor).run(settings)


@main.command(epilog="Try it: webhooks check webhooks.yaml")
@click.argument("file", type=_FILE)
def check(file: Path) -> None:
    """Say everything that is wrong with a configuration FILE, or what policies it has.

    Exits with 0 where nothing is wrong, 2 where something is.
    """
    from webhooks.config import file as configured
    from webhooks.plugins.loader import load_checked

    with redirect_stdout(sys.stderr):  # what policies print when they are loaded is none of what is told
        configuration = configured.read(file)
        policies = load_checked(configuration)
    for policy in policies:
        click.echo(f"{policy.kind:<15} {policy.name}{'' if policy.mode == 'enforce' else f' ({policy.mode})'}")
    for line in configured.ended(policies):
        click.echo(f"webhooks: {line}", err=True)


@main.command(epilog="Try it: webhooks schema > webhooks.schema.json")
def schema() -> None:
    """Print the JSON Schema of configurations, by which editors complete and check them.

    Begin a configuration with the line "# yaml-language-server: $schema=webhooks.schema.json".
    """
    from webhooks.config import file as configured

    click.echo(json.dumps(configured.schema(), indent=2))


@main.command(epilog="Try it: webhooks health http://127.0.0.1:8080/livez")
@click.argument("url", required=False)
def health(url: str | None) -> None:
    """Ask the ops port of a server whether it can answer; by default, http://127.0.0.1:8080/readyz.

    Prints what it says, and exits with 0 if it can and 1 if not.
    """
    from webhooks.cli.health import READY, ask

    state = ask(url or READY)
    click.echo(f"{url or READY}: {state.says}", err=not state.good)
    sys.exit(not state.good)


@main.command(epilog="Try it: webhooks review --policies library:required_labels manifests/")
@click.argument("manifests", nargs=-1, required=True)
@click.option("--config", type=_FILE, help="A WebhookConfiguration (YAML), whose policies are asked as it says.")
@click.option(
    "--policies",
    multiple=True,
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
    from webhooks.cli import review as command

    if not options["policies"] and options["config"] is None:
        raise click.UsageError("Nothing to review by: give --config or --policies.")
    sys.exit(command.run(command.Job(sources=options.pop("manifests"), **options)))


def _names(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    from webhooks.policy.loader import bundled_files

    return [name for name in bundled_files() if name.startswith(typed)]


@main.command(epilog="Try it: webhooks library required_labels")
@click.argument("name", required=False, shell_complete=_names)
@click.option("--markdown", is_flag=True, help="As a page for reading in a browser.")
def library(name: str | None, markdown: bool) -> None:
    """List the bundled policies, or show all about the one of that NAME."""
    from webhooks.cli import library as catalogue

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
    """Begin a policy of that NAME: its file, cases beside it and a test, which pass as they are.

    A configuration, webhooks.yaml, is written with it; to one that is there already, nothing is added.
    """
    from webhooks.cli import new as scaffolding

    begun = scaffolding.write(name, kind, folder)
    for file in begun.files:
        click.echo(file)
    if begun.entry:
        click.echo(
            f"webhooks: {begun.configuration} was there already; add to its policies:\n{begun.entry}",
            nl=False,
            err=True,
        )
