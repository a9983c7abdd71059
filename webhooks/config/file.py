"""Reads a configuration file (``WebhookConfiguration``) into settings and policies."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic.alias_generators import to_camel

from webhooks import watch
from webhooks.config import strict_yaml
from webhooks.config.document import Document
from webhooks.config.models import OPTIONS_ONLY, PolicyEntry, WebhookConfiguration
from webhooks.config.policies import EntryLoader
from webhooks.config.validation import FieldError, FieldPath, format_value
from webhooks.errors import ConfigurationError
from webhooks.policy import loader
from webhooks.policy.model import AnyPolicy
from webhooks.policy.registry import Registry
from webhooks.settings import Limits, Settings, options

_SETTINGS = {field.name for field, _ in options(Settings)} - {*OPTIONS_ONLY}
_LIMITS = {field.name for field, _ in options(Limits)}
_OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)")


@dataclass(frozen=True)
class Configuration:
    """The contents of a configuration file.

    Attributes:
        file: the path of the file.
        settings: the settings of the server.
        entries: the entries of its policies, which are not loaded yet.
        digest: the digest of the contents, see `webhooks.watch.digest`.
    """

    file: Path
    settings: Settings
    entries: tuple[PolicyEntry, ...]
    digest: bytes
    _document: Document

    @property
    def policy_paths(self) -> list[Path]:
        """The files and folders of the policies. They may not exist."""
        return [path for entry in self.entries for path in loader.watched_paths(entry.use, self.file.parent)]

    def load(self) -> list[AnyPolicy]:
        """Load the policies, as the file configures them.

        Raises:
            ConfigurationError: a policy is invalid; one line for each error.
        """
        errors: list[FieldError] = []
        policies: list[AnyPolicy] = []
        first_uses: dict[str, int] = {}
        for number, entry in enumerate(self.entries):
            path: FieldPath = ("policies", number)
            for policy in EntryLoader(entry, path, errors.append).load(self.file.parent):
                first = first_uses.setdefault(policy.name, number)
                if first != number:
                    errors.append(_duplicate_name(policy.name, entry, path, first))
                policies.append(policy)
        if errors:
            raise self._document.error(errors)
        return policies

    def check_settings(self) -> None:
        """Check that the settings are consistent. Errors have the location and the names of fields, not of options.

        Raises:
            ConfigurationError: settings contradict each other; one line for each contradiction.
        """
        try:
            self.settings.check()
        except ConfigurationError as error:
            raise ConfigurationError("\n".join(map(self._locate, str(error).split("\n")))) from None

    def _locate(self, message: str) -> str:
        paths = [_field_path(option) for option in _OPTION.findall(message)]
        line, column = next(filter(None, map(self._document.find_place, filter(None, paths))), (1, 1))
        text = _OPTION.sub(lambda match: ".".join(_field_path(match[1]) or (match[0],)), message)
        return f"{self.file}:{line}:{column}: {text}"


def read(file: Path) -> Configuration:
    """Read a configuration file. Paths in it are relative to its folder.

    Raises:
        ConfigurationError: the file is invalid; one line for each error. Policies are not loaded.
    """
    raw = strict_yaml.read_bytes(file)
    if file.suffix == ".py":
        raise ConfigurationError(
            f"{file}: a policy file, not a configuration: give it by --policies, or list it in a configuration"
        )
    document = strict_yaml.parse(raw, file)
    content = document.read(WebhookConfiguration, file.parent)
    server: Any = content.server
    limits = Limits(**{name: getattr(server.limits, name) for name in _LIMITS})
    settings = Settings(**{name: getattr(server, name) for name in _SETTINGS}, limits=limits)
    return Configuration(file, settings, content.policies, watch.digest(raw), document)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of configuration files, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **WebhookConfiguration.model_json_schema(),
    }


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
    """Yield a warning for each exemption that has expired."""
    for policy in policies:
        for exemption in policy.exemptions:
            if exemption.is_expired:
                yield f"policy {policy.name}: {exemption.expiry_notice}: remove it"


def _duplicate_name(name: str, entry: PolicyEntry, path: FieldPath, first: int) -> FieldError:
    field = "use" if entry.name is None else "name"
    detail = f"policies[{first}] has the same name: set another name for one of them"
    return FieldError((*path, field), "Duplicate value", detail, format_value(name))


def _field_path(option: str) -> tuple[str, ...] | None:
    """Return the path of the field for an option without ``--``; None if there is none."""
    name = option.replace("-", "_")
    if name in _LIMITS:
        return ("server", "limits", to_camel(name))
    return ("server", to_camel(name)) if name in _SETTINGS else None
