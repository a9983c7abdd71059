"""The commands ``webhooks check`` and ``webhooks schema``, for configuration files."""

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import click


@click.command(epilog="Example: webhooks check webhooks.yaml")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def check(file: Path) -> None:
    """Validate a configuration file and list its policies.

    Prints all errors, and warns of expired exemptions. The exit code is 0 if FILE is valid, else 2.
    """
    from webhooks.config.file import expired_exemptions, read
    from webhooks.plugins.loader import load_checked

    with redirect_stdout(sys.stderr):  # policies may print when they are loaded
        policies = load_checked(read(file))
    for policy in policies:
        click.echo(f"{policy.kind:<15} {policy.name}{'' if policy.mode == 'enforce' else f' ({policy.mode})'}")
    for line in expired_exemptions(policies):
        click.echo(f"webhooks: {line}", err=True)


@click.command(epilog="Example: webhooks schema > webhooks.schema.json")
def schema() -> None:
    """Print the JSON Schema of configuration files.

    Editors use it to complete and validate files that begin with this line:

    # yaml-language-server: $schema=webhooks.schema.json
    """
    from webhooks.config import file

    click.echo(json.dumps(file.schema(), indent=2))
