"""The command ``webhooks review``."""

import sys
from pathlib import Path
from typing import Any

import click


@click.command(epilog="Example: webhooks review --policies library:required_labels manifests/")
@click.argument("manifests", nargs=-1, required=True)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A WebhookConfiguration (YAML): apply its policies.",
)
@click.option(
    "--policies",
    multiple=True,
    metavar="PATH_OR_NAME",
    help="A policy file, a folder of policy files, or library:NAME for a bundled policy. Repeatable.",
)
@click.option(
    "--operation",
    type=click.Choice(["CREATE", "UPDATE", "DELETE"]),
    help="The operation. Default: UPDATE for objects in --old, CREATE for others.",
)
@click.option("--user", default="reviewer", show_default=True, help="The user who makes the request.")
@click.option(
    "--group", "groups", multiple=True, help="A group of the user, in addition to system:authenticated. Repeatable."
)
@click.option(
    "--old",
    multiple=True,
    metavar="PATH",
    help="A file or folder of the stored objects, found by kind, namespace and name. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "junit", "sarif", "patched"]),
    default="table",
    show_default=True,
    help="The format of the report; patched prints the allowed objects as they would be stored.",
)
def review(**options: Any) -> None:
    """Review manifests without a cluster.

    MANIFESTS are files, folders, or - for standard input. The exit code is 0 if all objects are allowed, 1 if one is
    denied, 2 if one cannot be reviewed.
    """
    from webhooks.cli.offline_review import Job, run  # slow to import

    if not options["policies"] and options["config"] is None:
        raise click.UsageError("No policies: give --config or --policies.")
    sys.exit(run(Job(sources=options.pop("manifests"), **options)))
