"""The files that a server reads: which of them go into a cluster, and what they are called there."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from importlib import resources
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from webhooks.config.file import Configuration
from webhooks.errors import ConfigurationError
from webhooks.plugins import admission_configuration, loader
from webhooks.policy import loader as loading
from webhooks.policy.model import AnyPolicy
from webhooks.settings import Limits, Settings

HOME = "/etc/webhooks"
_PUBLIC = ("client_ca", "oidc_ca")
# What a server in a cluster is told in another way, or what is a file.
_ELSEWHERE = (
    *("policies", "config", "admission_config", "host", "port", "ops_port", "certs_dir", "tls_cert", "tls_key"),
    *(*_PUBLIC, "token_file", "limits", "sync_ca_bundle", "kubeconfig", "context"),
)


@dataclass
class Sources:
    """Files, by their paths below one folder.

    Attributes:
        configuration: those that configure.
        policies: those of policies.
        secret: the paths of those that are nobody's business, which are not written.
        told: the options that name them, and what else is told by options, as they are written.
    """

    configuration: dict[str, str] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    secret: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """What is another when they are: pods that have read them are replaced then."""
        content = repr((sorted(self.configuration.items()), sorted(self.policies.items())))
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def collect(settings: Settings, policies: Iterable[AnyPolicy], configuration: Configuration | None) -> Sources:
    """All that a server of these settings reads.

    Args:
        settings: what it is told.
        policies: what it asks.
        configuration: the file that says so; None where options do.

    Raises:
        ConfigurationError: a file cannot be read, or cannot have a place in the cluster.
    """
    sources = Sources()
    if configuration is None:
        _collect_policies(sources, policies)
    else:
        _collect_configuration(sources, configuration)
    if settings.admission_config is not None:
        _collect_plugins(sources, settings.admission_config)
    for name in _PUBLIC:
        path = getattr(settings, name)
        if path is not None:
            place = f"{name.replace('_', '-')}.crt"
            _put(sources.configuration, place, path)
            sources.told.append(f"--{name.replace('_', '-')}={HOME}/{place}")
    if settings.token_file is not None:
        place = f"tokens/{settings.token_file.name}"
        sources.secret.append(place)
        sources.told.append(f"--token-file={HOME}/{place}")
    if configuration is None:
        sources.told += [*_options(settings, Settings()), *_options(settings.limits, Limits())]
    return sources


def _collect_policies(sources: Sources, policies: Iterable[AnyPolicy]) -> None:
    """The files that policies stand in, in the order of the policies; bundled ones are in the image already."""
    ready = {str(path): name for name, path in loading.bundled_files().items()}
    package = Path(str(resources.files("webhooks")))
    for home in dict.fromkeys(policy.origin.module_file for policy in policies):
        path = Path(home)
        if home in ready:
            sources.told.append(f"--policies=library:{ready[home]}")
        elif package not in path.parents:  # a plugin's policies come with its configuration
            place = f"policies/{path.name}"
            _put(sources.policies, place, path)
            sources.told.append(f"--policies={HOME}/{place}")


def _collect_configuration(sources: Sources, configuration: Configuration) -> None:
    """The configuration, and the files of policies beside it, in the same places as here."""
    _put(sources.configuration, "webhooks.yaml", configuration.file)
    sources.told.append(f"--config={HOME}/webhooks.yaml")
    folder = _absolute(configuration.file).parent
    for path in dict.fromkeys(file for place in configuration.places for file in loading.policy_files(place)):
        _put(sources.policies, _below(path, folder, configuration.file), path)


def _collect_plugins(sources: Sources, file: Path) -> None:
    _put(sources.configuration, "admission.yaml", file)
    registered = {point.name for point in entry_points(group=loader.GROUP)}
    for entry in admission_configuration.read(file, registered):
        if isinstance(entry.configuration, Path):
            place = _below(entry.configuration, _absolute(file).parent, file)
            _put(sources.configuration, place, entry.configuration)
    sources.told.append(f"--admission-config={HOME}/admission.yaml")


def _below(path: Path, folder: Path, named_by: Path) -> str:
    """Where a file is below a folder, which is where it is looked for in a cluster."""
    path = _absolute(path)
    if not path.is_relative_to(folder):
        raise ConfigurationError(
            f"{named_by}: {path} is not below the folder of this file, and the ConfigMap would hold that alone: move it"
        )
    return path.relative_to(folder).as_posix()


def _absolute(path: Path) -> Path:
    """A path from the root, without detours by ``..``; links stay what they are."""
    return Path(os.path.abspath(path))


def _put(files: dict[str, str], place: str, path: Path) -> None:
    if place in files:
        raise ConfigurationError(
            f"{path}: another file would have its place in the cluster, {place}: rename one of them"
        )
    try:
        files[place] = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None


def _options(told: Settings | Limits, usual: Settings | Limits) -> Iterator[str]:
    """What differs from what is usual, as options that need no file."""
    for each in fields(told):
        value = getattr(told, each.name)
        if each.name not in _ELSEWHERE and value != getattr(usual, each.name):
            yield from _written(f"--{each.name.replace('_', '-')}", value)


def _written(name: str, value: Any) -> list[str]:
    if value is True:
        return [name]
    if isinstance(value, tuple):
        return [f"{name}={each}" for each in value]
    return [f"{name}={value:g}s" if isinstance(value, float) else f"{name}={value}"]
