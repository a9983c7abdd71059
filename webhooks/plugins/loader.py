"""Loads plugins: policies that an AdmissionConfiguration lists and configures, as in API servers.

A plugin is a function. An installed package registers it as an entry point:

    [project.entry-points."webhooks.plugins"]
    EventRateLimit = "webhooks.plugins.event_rate_limit:configure"
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TypeAlias

from webhooks.config.document import Document
from webhooks.config.file import Configuration, require_policies
from webhooks.errors import ConfigurationError, printable
from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins import admission_configuration
from webhooks.policy.model import AnyPolicy
from webhooks.policy.registry import Registry

GROUP = "webhooks.plugins"
_CLOSE_TIMEOUT = 5.0  # seconds for each plugin

logger = logging.getLogger("webhooks.plugins")


class PluginContext:
    """The server for which a plugin is configured.

    Attributes:
        workers: the number of server processes. Each of them configures its plugins separately.
        metrics: the registry for metrics of the plugin.
    """

    def __init__(self, workers: int = 1, metrics: MetricRegistry | None = None) -> None:
        self.workers = workers
        self.metrics = MetricRegistry() if metrics is None else metrics
        self._close_functions: list[Callable[[], Awaitable[None]]] = []

    def on_shutdown(self, close: Callable[[], Awaitable[None]]) -> None:
        """Register a function to await on the event loop after the last review. The last one is called first."""
        self._close_functions.append(close)

    async def close(self) -> None:
        """Call the registered functions. Errors and timeouts are logged, and do not affect the others."""
        while self._close_functions:
            close = self._close_functions.pop()
            try:
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    await close()
            except Exception:
                logger.exception("a plugin failed to shut down")


Plugin: TypeAlias = Callable[[Document, PluginContext], Iterable[AnyPolicy]]
"""Creates policies from a configuration. Raises ConfigurationError with all errors in it."""


def load(file: Path, context: PluginContext) -> list[AnyPolicy]:
    """Load the policies of the plugins in an AdmissionConfiguration, in its order.

    Raises:
        ConfigurationError: the file, or the configuration of a plugin, is invalid; one line for each error.
    """
    registered = {entry_point.name for entry_point in entry_points(group=GROUP)}
    policies: list[AnyPolicy] = []
    errors: list[ConfigurationError] = []
    for entry in admission_configuration.read(file, registered):
        try:
            policies += _configure(entry, context)
        except ConfigurationError as error:
            errors.append(error)
    if errors:
        raise ConfigurationError("\n".join(map(str, errors)))
    return policies


def load_checked(configuration: Configuration) -> list[AnyPolicy]:
    """Load all policies of a configuration, as a server does, and report all errors. Policies of plugins are last.

    Files that exist on the host of the server only are not read: certificates, keys, tokens.

    Raises:
        ConfigurationError: the configuration, a policy or a plugin is invalid; one line for each error.
    """
    file = configuration.settings.admission_config
    policies: list[AnyPolicy] = []
    errors: list[str] = []
    for step in (configuration.check_settings, configuration.load, partial(_load_if_set, file)):
        try:
            policies += step() or ()
        except ConfigurationError as error:
            errors.append(str(error))
    if errors:
        raise ConfigurationError("\n".join(errors))
    return list(require_policies(Registry(policies), configuration.file))


def _load_if_set(file: Path | None) -> list[AnyPolicy]:
    return [] if file is None else load(file, PluginContext())


def _configure(entry: admission_configuration.Entry, context: PluginContext) -> list[AnyPolicy]:
    entry_point = _find_entry_point(entry.name)
    document = entry.read()
    try:
        plugin: Plugin = entry_point.load()
        return list(plugin(document, context))
    except (ConfigurationError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a plugin may raise anything, even SystemExit
        reason = printable(" ".join(f"{type(error).__name__}: {error}".split()))
        raise ConfigurationError(f"plugin {entry.name!r} ({_describe(entry_point)}): {reason}") from error


def _find_entry_point(name: str) -> EntryPoint:
    entry_point, *others = entry_points(group=GROUP, name=name)
    if others:
        packages = " and ".join(map(_describe, (entry_point, *others)))
        raise ConfigurationError(f"plugin {name!r} is registered more than once, by {packages}: uninstall all but one")
    return entry_point


def _describe(entry_point: EntryPoint) -> str:
    package = entry_point.dist
    return f"{entry_point.value} of {package.name} {package.version}" if package else entry_point.value
