"""The files that a server reads: which of them go into the cluster, and at which paths."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from importlib import resources
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from webhooks.config.file import Configuration
from webhooks.errors import ConfigurationError, unreadable
from webhooks.plugins import admission_configuration
from webhooks.plugins.loader import GROUP
from webhooks.policy.loader import bundled_files, policy_files
from webhooks.policy.model import AnyPolicy
from webhooks.settings import Limits, Settings

MOUNT_PATH = "/etc/webhooks"
_CA_FILES = ("client_ca", "oidc_ca")
# Settings that are files, and those that the Deployment sets.
_NOT_COPIED = (
    *("policies", "config", "admission_config", "host", "port", "ops_port", "certs_dir", "tls_cert", "tls_key"),
    *(*_CA_FILES, "token_file", "limits", "sync_ca_bundle", "kubeconfig", "context"),
)


@dataclass
class ServerFiles:
    """Files of a server by their paths below `MOUNT_PATH`, and the arguments that refer to them.

    Attributes:
        configuration: the contents of configuration files.
        policies: the contents of policy files.
        secrets: the paths of secret files, whose contents are not written.
        arguments: the arguments of ``webhooks serve`` for these files, and for settings that need no file.
    """

    configuration: dict[str, str] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """A digest of the files in ConfigMaps. It changes with them, so that pods are replaced."""
        content = repr((sorted(self.configuration.items()), sorted(self.policies.items())))
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def collect(settings: Settings, policies: Iterable[AnyPolicy], configuration: Configuration | None) -> ServerFiles:
    """Read all files of a server.

    Args:
        settings: the settings of the server; all that differ from their defaults become arguments.
        policies: its policies.
        configuration: the configuration file with its settings and policies; None if they come from options.

    Raises:
        ConfigurationError: a file cannot be read, or cannot have a path in the cluster.
    """
    files = ServerFiles()
    if configuration is None:
        _add_policies(files, policies)
    else:
        _add_configuration(files, configuration)
    if settings.admission_config is not None:
        _add_plugins(files, settings.admission_config)
    for name in _CA_FILES:
        path = getattr(settings, name)
        if path is not None:
            option = name.replace("_", "-")
            _add_file(files.configuration, f"{option}.crt", path)
            files.arguments.append(f"--{option}={MOUNT_PATH}/{option}.crt")
    if settings.token_file is not None:
        path = f"tokens/{settings.token_file.name}"
        files.secrets.append(path)
        files.arguments.append(f"--token-file={MOUNT_PATH}/{path}")
    if configuration is None:
        files.arguments += [*_format_options(settings, Settings()), *_format_options(settings.limits, Limits())]
    return files


def _add_policies(files: ServerFiles, policies: Iterable[AnyPolicy]) -> None:
    """Add the files of policies, in the order of the policies. The image contains the bundled ones."""
    bundled = {str(path): name for name, path in bundled_files().items()}
    package = Path(str(resources.files("webhooks")))
    for home in dict.fromkeys(policy.origin.module_file for policy in policies):
        path = Path(home)
        if home in bundled:
            files.arguments.append(f"--policies=library:{bundled[home]}")
        elif package not in path.parents:  # the policies of a plugin come with its configuration
            _add_file(files.policies, f"policies/{path.name}", path)
            files.arguments.append(f"--policies={MOUNT_PATH}/policies/{path.name}")


def _add_configuration(files: ServerFiles, configuration: Configuration) -> None:
    """Add a configuration file and its policy files, at the same relative paths."""
    _add_file(files.configuration, "webhooks.yaml", configuration.file)
    files.arguments.append(f"--config={MOUNT_PATH}/webhooks.yaml")
    folder = _normalize(configuration.file).parent
    for path in dict.fromkeys(file for place in configuration.policy_paths for file in policy_files(place)):
        _add_file(files.policies, _relative_path(path, folder, configuration.file), path)


def _add_plugins(files: ServerFiles, admission_config: Path) -> None:
    _add_file(files.configuration, "admission.yaml", admission_config)
    plugins = {entry_point.name for entry_point in entry_points(group=GROUP)}
    for entry in admission_configuration.read(admission_config, plugins):
        if isinstance(entry.configuration, Path):
            path = _relative_path(entry.configuration, _normalize(admission_config).parent, admission_config)
            _add_file(files.configuration, path, entry.configuration)
    files.arguments.append(f"--admission-config={MOUNT_PATH}/admission.yaml")


def _relative_path(path: Path, folder: Path, listed_in: Path) -> str:
    """Return the path of a file relative to the folder of the file in which it is listed."""
    path = _normalize(path)
    if not path.is_relative_to(folder):
        raise ConfigurationError(
            f"{listed_in}: {path} is not in the folder of this file or below it, so it would not be found in the "
            "cluster: move it there"
        )
    return path.relative_to(folder).as_posix()


def _normalize(path: Path) -> Path:
    """Return an absolute path without ``..``. Symbolic links are not resolved."""
    return Path(os.path.abspath(path))


def _add_file(files: dict[str, str], path: str, source: Path) -> None:
    if path in files:
        raise ConfigurationError(f"{source}: another file would have the same path in the cluster, {path}: rename one")
    try:
        files[path] = source.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(source, error) from None


def _format_options(settings: Settings | Limits, defaults: Settings | Limits) -> Iterator[str]:
    """Yield the arguments for settings that differ from their defaults and need no file."""
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if setting.name not in _NOT_COPIED and value != getattr(defaults, setting.name):
            yield from _format_option(f"--{setting.name.replace('_', '-')}", value)


def _format_option(option: str, value: Any) -> list[str]:
    if value is True:
        return [option]
    if isinstance(value, tuple):
        return [f"{option}={item}" for item in value]
    return [f"{option}={value:g}s" if isinstance(value, float) else f"{option}={value}"]
