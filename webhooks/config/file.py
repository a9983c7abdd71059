"""From a configuration, ``webhooks.svc.io/v1alpha1`` ``WebhookConfiguration``, to settings and policies."""

import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, create_model

from webhooks.config import strict_yaml
from webhooks.config.models import PolicyEntry
from webhooks.config.policies import Entry
from webhooks.config.strict_yaml import Document
from webhooks.config.validation import FieldError, FieldPath, Model, duration, format_value
from webhooks.errors import ConfigurationError
from webhooks.policy import loader as loading
from webhooks.policy.model import AnyPolicy
from webhooks.policy.registry import Registry
from webhooks.settings import Limits, Option, Settings, options, without_none

_HERE = ("config", "policies")  # what only flags say


def _in_folder(path: Path, info: ValidationInfo) -> Path:
    return path if info.context is None else info.context / path


def _field(hint: Any, default: Any, option: Option) -> tuple[Any, Any]:
    """A setting as a field of a model."""
    optional, hint = hint != without_none(hint), without_none(hint)
    kept = Field(default, description=option.help)
    if hint is float:
        hint = Annotated[float, *duration(option.min, option.max)]
    elif hint is int:
        hint = Annotated[int, Field(ge=option.min, le=option.max)]
    elif hint is Path:
        hint = Annotated[Path, AfterValidator(_in_folder)]
    return (hint | None if optional else hint), kept


def _model(name: str, settings: type, without: Iterable[str] = (), **more: Any) -> type[Model]:
    """A model of what a dataclass of settings holds."""
    hints = typing.get_type_hints(settings)
    fields: dict[str, Any] = {
        each.name: _field(hints[each.name], each.default, option)
        for each, option in options(settings)
        if each.name not in without
    }
    return create_model(name, __base__=Model, __doc__=settings.__doc__, **fields, **more)


_Limits = _model("Limits", Limits)
_Server = _model("Server", Settings, _HERE, limits=(_Limits, Field(_Limits(), description="How much is taken.")))


class WebhookConfiguration(Model):
    """How a server serves, and the policies that it asks."""

    api_version: Literal["webhooks.svc.io/v1alpha1"]
    kind: Literal["WebhookConfiguration"]
    server: Annotated[_Server, Field(description="What flags say too, which win over this.")] = _Server()  # type: ignore[valid-type]
    policies: Annotated[tuple[PolicyEntry, ...], Field(description="In the order in which they are asked.")] = ()


@dataclass(frozen=True)
class Configuration:
    """What a file says.

    Attributes:
        file: the file.
        settings: how to serve.
        entries: its policies, which have not been loaded.
    """

    file: Path
    settings: Settings
    entries: tuple[PolicyEntry, ...]
    _document: Document

    @property
    def places(self) -> list[Path]:
        """The files and folders that policies come from, which may not be there."""
        return [path for entry in self.entries for path in loading.watched_paths(entry.use, self.file.parent)]

    def load(self) -> list[AnyPolicy]:
        """Load the policies, with all that is said of them.

        Raises:
            ConfigurationError: with all that is wrong, a line each.
        """
        findings: list[FieldError] = []
        policies: list[AnyPolicy] = []
        named: dict[str, int] = {}
        for number, entry in enumerate(self.entries):
            path: FieldPath = ("policies", number)
            for policy in Entry(entry, path, findings.append).load(self.file.parent):
                first = named.setdefault(policy.name, number)
                if first != number:
                    at = (*path, "use" if entry.name is None else "name")
                    detail = f"policies[{first}] has this name: give one of them another by name"
                    findings.append(FieldError(at, "Duplicate value", detail, format_value(policy.name)))
                policies.append(policy)
        if findings:
            raise self._document.error(findings)
        return policies


def read(file: Path) -> Configuration:
    """Read a configuration. Paths in it begin at its own folder.

    Raises:
        ConfigurationError: with all that is wrong with the file, a line each; its policies have not been looked at.
    """
    document = strict_yaml.read(file)
    told = document.read(WebhookConfiguration, file.parent)
    server: Any = told.server
    settings = {each.name: getattr(server, each.name) for each, _ in options(Settings) if each.name not in _HERE}
    limits = Limits(**{each.name: getattr(server.limits, each.name) for each, _ in options(Limits)})
    return Configuration(file, Settings(**settings, limits=limits), told.policies, document)


def schema() -> dict[str, Any]:
    """The JSON Schema of configurations, for editors."""
    found = WebhookConfiguration.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def require_policies(registry: Registry, file: Path | None) -> Registry:
    """Return a registry that is not empty.

    Raises:
        ConfigurationError: it is empty.
    """
    if not len(registry):
        location = "" if file is None else f"{file}: "
        raise ConfigurationError(
            f"{location}no policies: add at least one, because a server without policies allows everything"
        )
    return registry


def expired_exemptions(policies: Iterable[AnyPolicy]) -> Iterator[str]:
    """The exemptions that have ended, a line each, for people."""
    for policy in policies:
        for exemption in policy.exemptions:
            if exemption.is_expired:
                yield f"policy {policy.name}: {exemption.expiry_notice}: remove it"
