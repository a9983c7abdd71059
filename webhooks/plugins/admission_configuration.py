"""AdmissionConfiguration, ``apiserver.config.{svc,k8s}.io/v1``: which plugins there are, and how each is configured."""

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
    """A plugin that is to run.

    Attributes:
        name: under which it is registered.
        configuration: what is embedded, or the file it is in.
    """

    name: str
    configuration: Document | Path

    def document(self) -> Document:
        """The plugin's configuration.

        Raises:
            ConfigurationError: its file cannot be read, or is no YAML.
        """
        return strict_yaml.read(self.configuration) if isinstance(self.configuration, Path) else self.configuration


@dataclass(slots=True)
class _Names:
    """The names that plugins can have, and those that were there already."""

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
            registered = supported_values(sorted(names.registered)) if names.registered else "no plugins are installed"
            raise field_error("Unsupported value", registered)
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

    A plugin's configuration is what is embedded, else what is in the file at its path, which is relative to this file's
    own folder; with neither it is empty.

    Args:
        file: the file.
        registered: the names of the plugins that there are.

    Raises:
        ConfigurationError: with all that is wrong with the file, a line each.
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
