"""Reads an AdmissionConfiguration (``apiserver.config.{svc,k8s}.io/v1``): the plugins and their configurations."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from webhooks.config import strict_yaml
from webhooks.config.document import Document
from webhooks.config.validation import Model, field_error, one_of, supported_values
from webhooks.kube.api_groups import ADMISSION_CONFIGURATION


@dataclass(frozen=True, slots=True)
class Entry:
    """A plugin in the configuration.

    Attributes:
        name: the name under which the plugin is registered.
        configuration: its embedded configuration, or the file of its configuration.
    """

    name: str
    configuration: Document | Path

    def read(self) -> Document:
        """Return the configuration of the plugin.

        Raises:
            ConfigurationError: its file cannot be read, or is not valid YAML.
        """
        return strict_yaml.read(self.configuration) if isinstance(self.configuration, Path) else self.configuration


@dataclass(slots=True)
class _Names:
    """The context of the validation: the names of all plugins, and the names seen so far."""

    registered: Collection[str]
    seen: set[str] = field(default_factory=set)


class _Plugin(Model):
    name: Annotated[str, Field(min_length=1)]
    path: str = ""
    configuration: dict[str, Any] | None = None

    @field_validator("name")
    @classmethod
    def _check(cls, name: str, info: ValidationInfo) -> str:
        names = info.context
        assert isinstance(names, _Names)
        if name not in names.registered:
            detail = supported_values(sorted(names.registered)) if names.registered else "no plugins are installed"
            raise field_error("Unsupported value", detail)
        if name in names.seen:
            raise field_error("Duplicate value")
        names.seen.add(name)
        return name


class _AdmissionConfiguration(Model):
    api_version: Annotated[str, one_of(ADMISSION_CONFIGURATION)]
    kind: Literal["AdmissionConfiguration"]
    plugins: Annotated[list[_Plugin], Field(min_length=1)]


def read(file: Path, registered: Collection[str]) -> list[Entry]:
    """Read an AdmissionConfiguration.

    The configuration of a plugin is embedded, or in the file at `path`, relative to the folder of this file. If both
    are given, the embedded one is used; if none is given, it is empty.

    Args:
        file: the file.
        registered: the names of all plugins.

    Raises:
        ConfigurationError: the file is invalid; one line for each error.
    """
    document = strict_yaml.read(file)
    configuration = document.read(_AdmissionConfiguration, _Names(registered))
    return [
        Entry(
            plugin.name,
            file.parent / plugin.path
            if plugin.path and plugin.configuration is None
            else document.part("plugins", number, "configuration"),
        )
        for number, plugin in enumerate(configuration.plugins)
    ]
