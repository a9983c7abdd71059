"""Plugins: policies that an AdmissionConfiguration names and configures, as API servers have them.

A plugin is a function that is registered under a name, as an entry point of an installed package:

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
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins import admission_configuration
from webhooks.policy.model import AnyPolicy
from webhooks.policy.registry import Registry

GROUP = "webhooks.plugins"
_PATIENCE = 5.0  # seconds that one plugin has to end

logger = logging.getLogger("webhooks.plugins")


class PluginContext:
    """What a plugin is given of the server that it is configured for.

    Attributes:
        workers: processes that will answer, each of which configures its plugins for itself.
        metrics: the registry for metrics of the plugin.
    """

    def __init__(self, workers: int = 1, metrics: MetricRegistry | None = None) -> None:
        self.workers = workers
        self.metrics = MetricRegistry() if metrics is None else metrics
        self._closes: list[Callable[[], Awaitable[None]]] = []

    def on_shutdown(self, close: Callable[[], Awaitable[None]]) -> None:
        """Have this called, on the loop, when the server has answered its last review; the last one given is first."""
        self._closes.append(close)

    async def close(self) -> None:
        """End what plugins began. What goes wrong with one, or takes too long, is logged and keeps nobody else."""
        while self._closes:
            close = self._closes.pop()
            try:
                async with asyncio.timeout(_PATIENCE):
                    await close()
            except Exception:
                logger.exception("a plugin did not end as it should")


Plugin: TypeAlias = Callable[[Document, PluginContext], Iterable[AnyPolicy]]
"""Makes policies of its configuration; raises ConfigurationError with all that is wrong with it."""


def load(file: Path, site: PluginContext) -> list[AnyPolicy]:
    """The policies of the plugins that an AdmissionConfiguration names, in its order.

    Raises:
        ConfigurationError: with all that is wrong with the file; else with all that is wrong with any of the plugins.
    """
    registered = {entry.name for entry in entry_points(group=GROUP)}
    policies: list[AnyPolicy] = []
    errors: list[ConfigurationError] = []
    for entry in admission_configuration.read(file, registered):
        try:
            policies += _configured(entry, site)
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
    for step in (configuration.check_settings, configuration.load, partial(_load_any, file)):
        try:
            policies += step() or ()
        except ConfigurationError as error:
            errors.append(str(error))
    if errors:
        raise ConfigurationError("\n".join(errors))
    return list(require_policies(Registry(policies), configuration.file))


def _load_any(file: Path | None) -> list[AnyPolicy]:
    return [] if file is None else load(file, PluginContext())


def _configured(entry: admission_configuration.Entry, site: PluginContext) -> list[AnyPolicy]:
    point = _entry_point(entry.name)
    document = entry.document()
    try:
        plugin: Plugin = point.load()
        return list(plugin(document, site))
    except (ConfigurationError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever somebody else's package raises, SystemExit too
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigurationError(f"plugin {entry.name!r} ({_described(point)}): {what}") from error


def _entry_point(name: str) -> EntryPoint:
    point, *others = entry_points(group=GROUP, name=name)
    if others:
        places = " and ".join(map(_described, (point, *others)))
        raise ConfigurationError(f"plugin {name!r} is registered more than once, by {places}: uninstall all but one")
    return point


def _described(point: EntryPoint) -> str:
    return f"{point.value} of {point.dist.name} {point.dist.version}" if point.dist else point.value
