"""The command ``webhooks serve``."""

from typing import Any

import click

from webhooks.cli.options import CONFIGURATION, server_options, to_settings


@click.command(
    epilog="Example: webhooks serve --policies library:required_labels. "
    "Each option can also be set by an environment variable: --port by WEBHOOKS_SERVE_PORT."
)
@server_options
def serve(**options: Any) -> None:
    """Run the server.

    Prints one line, "ready https://HOST:PORT", when it accepts reviews. SIGTERM and SIGINT shut it down.
    """
    from webhooks.server import process, supervisor  # slow to import

    settings = to_settings(options)
    if not settings.policies and settings.admission_config is None and settings.config is None:
        raise click.UsageError("No policies: give --config, --policies or --admission-config.")
    configuration = click.get_current_context().meta.get(CONFIGURATION)
    (process if settings.workers == 1 else supervisor).run(settings, configuration)
