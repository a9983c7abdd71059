"""Reloads policies and the configuration that lists them while the server runs."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from webhooks.app.ops_routes import RELOAD_FAILING
from webhooks.config import file
from webhooks.config.file import Configuration
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry
from webhooks.policy import loader
from webhooks.policy.model import AnyPolicy
from webhooks.policy.registry import Registry
from webhooks.watch import FileWatcher, digest_file, run_periodically

logger = logging.getLogger("webhooks.server")

_POLL_INTERVAL = 1.0  # seconds


class PolicyReloader:
    """Loads policies, and loads all of them again when a file changes. The policies of plugins stay.

    Args:
        sources: the files, folders and bundled policies to load, see `webhooks.policy.loader.load`.
        configuration: the configuration with further policies; None for none.
        load_plugins: loads the policies of plugins. It is called once, after the files were loaded.
        metrics: the registry for the metrics.

    Attributes:
        registry: the policies that were loaded first.

    Raises:
        ConfigurationError: a file cannot be loaded, or policies contradict each other.
    """

    def __init__(
        self,
        sources: Iterable[str],
        configuration: Configuration | None,
        load_plugins: Callable[[], Sequence[AnyPolicy]],
        metrics: MetricRegistry,
    ) -> None:
        # Absolute paths, because a policy may change the working directory.
        self._folder = folder = Path.cwd()
        self._sources = [name if name.startswith(loader.LIBRARY) else str(folder / name) for name in sources]
        self._configuration = None if configuration is None else self._with_absolute_paths(configuration)
        # The file as it is now, if it is valid: the files that it lists are watched before they are loaded.
        self._latest = self._configuration
        self._latest_digest: bytes | int | None = None
        self._reloads = metrics.counter(
            "webhooks_policy_reloads_total", "Reloads of changed policies, by result.", ("result",)
        )
        for result in ("success", "failure"):
            self._reloads.add(result, amount=0)
        self._failing = metrics.gauge(
            RELOAD_FAILING, "Processes whose policies are older than the files, which could not be loaded."
        )
        self._failing.set(0)
        loaded = {} if self._configuration is None else {self._configuration.file: self._configuration.digest}
        self._watcher = FileWatcher(self._files, self._reload, self._use, self._report, loaded)
        policies = self._load()
        self._plugins = load_plugins()
        self.registry = self._build_registry(policies)

    @contextmanager
    def watching(self, replace_policies: Callable[[Registry], Coroutine[Any, Any, None]]) -> Iterator[None]:
        """Reload the policies when files change, within the block. Requires a running loop.

        Args:
            replace_policies: replaces the policies in use. It is called on the loop.
        """
        self._replace_policies, self._loop = replace_policies, asyncio.get_running_loop()
        with run_periodically(self._watcher.poll, _POLL_INTERVAL, "policies"):
            yield

    def _files(self) -> Iterator[Path]:
        for source in self._sources:
            for path in loader.watched_paths(source, Path()):
                yield from loader.policy_files(path)
        if self._configuration is not None:
            yield self._configuration.file
            for path in self._read_latest(self._configuration).policy_paths:
                yield from loader.policy_files(path)

    def _read_latest(self, configuration: Configuration) -> Configuration:
        digest = digest_file(configuration.file)
        latest = self._latest or configuration
        if digest not in (latest.digest, self._latest_digest):
            with suppress(ConfigurationError):  # reported when it is loaded
                self._latest = latest = self._with_absolute_paths(file.read(configuration.file))
        self._latest_digest = digest
        return latest

    def _reload(self) -> list[AnyPolicy]:
        logger.info("files of policies have changed: loading the policies")
        self._failing.set(1)  # until the result is known, which may take long
        if self._configuration is not None:
            before, latest = self._configuration, self._latest
            if latest is None or latest.digest != self._latest_digest:
                latest = self._with_absolute_paths(file.read(before.file))
            self._configuration = latest
            if before.settings != self._configuration.settings:
                logger.warning("%s: a change of server settings requires a restart", before.file)
        return self._load()

    def _with_absolute_paths(self, configuration: Configuration) -> Configuration:
        settings = configuration.settings
        paths: dict[str, Any] = {
            name: self._folder / path for name, path in vars(settings).items() if isinstance(path, Path)
        }
        return replace(configuration, file=self._folder / configuration.file, settings=replace(settings, **paths))

    def _load(self) -> list[AnyPolicy]:
        policies = list(loader.load(self._sources))
        if self._configuration is not None:
            policies += self._configuration.load()
        for line in file.expired_exemptions(policies):
            logger.warning("%s", line)
        return policies

    def _build_registry(self, policies: Iterable[AnyPolicy]) -> Registry:
        path = None if self._configuration is None else self._configuration.file
        return file.require_policies(Registry([*policies, *self._plugins]), path)

    def _use(self, policies: Iterable[AnyPolicy]) -> None:
        registry = self._build_registry(policies)
        asyncio.run_coroutine_threadsafe(self._replace_policies(registry), self._loop).result()
        self._reloads.add("success")
        self._failing.set(0)
        logger.info("policies were reloaded: %s", ", ".join(policy.name for policy in registry))

    def _report(self, error: ConfigurationError) -> None:
        self._reloads.add("failure")
        self._failing.set(1)
        logger.error("policies are not reloaded, and the previous ones stay in use: %s", error)
