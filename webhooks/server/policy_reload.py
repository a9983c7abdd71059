"""Policies are exchanged while the server serves: it follows their files, and the configuration that names them."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from webhooks.app.asgi import WebhookApp
from webhooks.app.review_metrics import REFUSED
from webhooks.config import file
from webhooks.config.file import Configuration
from webhooks.errors import ConfigurationError
from webhooks.plugins import loader
from webhooks.plugins.loader import PluginContext
from webhooks.policy import loader as loading
from webhooks.policy.model import AnyPolicy
from webhooks.policy.registry import Registry
from webhooks.settings import Settings
from webhooks.watch import FileWatcher, run_periodically

logger = logging.getLogger("webhooks.server")

_LOOK = 1.0  # seconds between the times that the files are looked at


class PolicyReloader:
    """Policies that follow files, which anybody may replace at any time: all of them are, or none.

    Args:
        settings: which name the files.
        site: what plugins are given; their policies stay as they are.

    Attributes:
        registry: the policies, as the files had them at the beginning.

    Raises:
        ConfigurationError: something does not load, or does not fit together.
    """

    def __init__(self, settings: Settings, site: PluginContext) -> None:
        self._settings = _absolute(settings)
        self._reloads = site.metrics.counter(
            "webhooks_policy_reloads_total",
            "Changes of policies or their configuration, by whether they were taken over, in each process.",
            ("result",),
        )
        for result in ("taken", "refused"):
            self._reloads.add(result, amount=0)
        self._refused = site.metrics.gauge(
            REFUSED, "Processes whose policies are older than what is in the files, which they could not take over."
        )
        self._refused.set(0)
        self._configuration: Configuration | None = None
        self._find()
        self._changes = FileWatcher(self._files, self._build, self._exchange, self._refuse)
        policies = self._load()
        self._plugins = [] if settings.admission_config is None else loader.load(settings.admission_config, site)
        self.registry = self._registry(policies)

    @contextmanager
    def looking(self, app: WebhookApp) -> Iterator[None]:
        """Have an application, on whose loop this is called, answer by what is in the files while the block lasts."""
        self._app, self._loop = app, asyncio.get_running_loop()
        with run_periodically(self._changes.poll, _LOOK, "policies"):
            yield

    def _find(self) -> None:
        """Read the configuration, to know which files there are."""
        if self._settings.config is not None:
            before, self._configuration = self._configuration, file.read(self._settings.config)
            if before is not None and before.settings != self._configuration.settings:
                logger.warning("%s: what it says of the server holds from the next start on", before.file)

    def _files(self) -> Iterator[Path]:
        for source in self._settings.policies:
            for place in loading.watched_paths(source, Path()):
                yield from loading.policy_files(place)
        if self._configuration is not None:
            yield self._configuration.file
            for place in self._configuration.policy_paths:
                yield from loading.policy_files(place)

    def _build(self) -> list[AnyPolicy]:
        """Load what has changed. Until that has ended, however long it takes, what is in the files is not asked."""
        logger.info("policies have changed, and are loaded")
        self._refused.set(1)
        return self._load()

    def _load(self) -> list[AnyPolicy]:
        self._find()
        policies = list(loading.load(self._settings.policies))
        if self._configuration is not None:
            policies += self._configuration.load()
        for line in file.expired_exemptions(policies):
            logger.warning("%s", line)
        return policies

    def _registry(self, policies: Iterable[AnyPolicy]) -> Registry:
        return file.require_policies(Registry([*policies, *self._plugins]), self._settings.config)

    def _exchange(self, policies: Iterable[AnyPolicy]) -> None:
        registry = self._registry(policies)
        asyncio.run_coroutine_threadsafe(self._app.exchange(registry), self._loop).result()
        self._reloads.add("taken")
        self._refused.set(0)
        logger.info("policies are taken over: %s", ", ".join(policy.name for policy in registry))

    def _refuse(self, error: ConfigurationError) -> None:
        self._reloads.add("refused")
        self._refused.set(1)
        logger.error("policies are not taken over, and those from before answer on: %s", error)


def _absolute(settings: Settings) -> Settings:
    """The settings, whatever folder a policy goes to when it is loaded."""
    policies = tuple(
        each if each.startswith(loading.LIBRARY) else str(Path(each).absolute()) for each in settings.policies
    )
    return replace(settings, policies=policies, config=None if settings.config is None else settings.config.absolute())
