"""From a configuration, ``webhooks.svc.io/v1alpha1`` ``WebhookConfiguration``, to settings and policies."""

import copy
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, create_model

from webhooks import loading
from webhooks.configuration import documents
from webhooks.configuration.documents import Document
from webhooks.configuration.fields import FieldPath, Finding, Model, duration, shown
from webhooks.configuration.policies import ExemptionEntry, Narrowing, PolicyEntry
from webhooks.errors import ConfigurationError
from webhooks.exemptions import Exemption
from webhooks.globs import EVERYTHING, Globs
from webhooks.limits import Limits
from webhooks.matching import AccessMatch, AdmissionMatch, ImageMatch, operations
from webhooks.options import Option, options
from webhooks.policy import AnyPolicy, Kind, Match
from webhooks.registry import Registry
from webhooks.rules import rules
from webhooks.selectors import Selector
from webhooks.settings import Settings

_HERE = ("config", "policies")  # what only flags say

_ADMISSION = frozenset(
    ("resources", "operations", "namespaces", "exclude_namespaces", "names", "object_selector", "users", "groups")
)
_NARROWED: Mapping[Kind, frozenset[str]] = {
    "mutating": _ADMISSION,
    "validating": _ADMISSION,
    "authorizing": frozenset(
        ("resources", "verbs", "paths", "namespaces", "exclude_namespaces", "names", "users", "groups")
    ),
    "authenticating": frozenset(),
    "image_policy": frozenset(("namespaces", "exclude_namespaces")),
}
_EXEMPTED: Mapping[Kind, frozenset[str]] = {
    "mutating": frozenset(("namespaces", "names", "users", "images")),
    "validating": frozenset(("namespaces", "names", "users", "images")),
    "authorizing": frozenset(("namespaces", "names", "users")),
    "authenticating": frozenset(),
    "image_policy": frozenset(("namespaces", "images")),
}
_MODES: Mapping[Kind, tuple[str, ...]] = {
    "mutating": ("enforce", "warn", "audit"),
    "validating": ("enforce", "warn", "audit"),
    "authorizing": ("enforce",),
    "authenticating": ("enforce",),
    "image_policy": ("enforce", "audit"),
}


def _in_folder(path: Path, info: ValidationInfo) -> Path:
    return path if info.context is None else info.context / path


def _field(hint: Any, default: Any, option: Option) -> tuple[Any, Any]:
    """A setting as a field of a model."""
    optional = isinstance(hint, UnionType)
    if optional:
        [hint] = [each for each in typing.get_args(hint) if each is not NoneType]
    kept = Field(default, description=option.about)
    if hint is float:
        hint = Annotated[float, *duration(option.least, option.most)]
    elif hint is int:
        hint = Annotated[int, Field(ge=option.least, le=option.most)]
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
        return [path for entry in self.entries for path in loading.places(entry.use, self.file.parent)]

    def load(self) -> list[AnyPolicy]:
        """Load the policies, with all that is said of them.

        Raises:
            ConfigurationError: with all that is wrong, a line each.
        """
        findings: list[Finding] = []
        policies: list[AnyPolicy] = []
        named: dict[str, int] = {}
        for number, entry in enumerate(self.entries):
            path: FieldPath = ("policies", number)
            for policy in _Entry(entry, path, findings.append).load(self.file.parent):
                first = named.setdefault(policy.name, number)
                if first != number:
                    at = (*path, "use" if entry.name is None else "name")
                    detail = f"policies[{first}] has this name: give one of them another by name"
                    findings.append(Finding(at, "Duplicate value", detail, shown(policy.name)))
                policies.append(policy)
        if findings:
            raise self._document.error(findings)
        return policies


def read(file: Path) -> Configuration:
    """Read a configuration. Paths in it begin at its own folder.

    Raises:
        ConfigurationError: with all that is wrong with the file, a line each; its policies have not been looked at.
    """
    document = documents.read(file)
    told = document.read(WebhookConfiguration, file.parent)
    server: Any = told.server
    settings = {each.name: getattr(server, each.name) for each, _ in options(Settings) if each.name not in _HERE}
    limits = Limits(**{each.name: getattr(server.limits, each.name) for each, _ in options(Limits)})
    settings["ops_port"] = settings["ops_port"] or None
    return Configuration(file, Settings(**settings, limits=limits), told.policies, document)


def schema() -> dict[str, Any]:
    """The JSON Schema of configurations, for editors."""
    found = WebhookConfiguration.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def checked(configuration: Configuration) -> list[AnyPolicy]:
    """The policies of a configuration, which fit together.

    Raises:
        ConfigurationError: with all that is wrong, a line each.
    """
    return list(Registry(configuration.load()))


def parameter(policy: AnyPolicy, name: str) -> str | None:
    """The parameter of a policy that is meant by a name; None for none: exemptImages and exempt_images are one."""
    return next((each for each in policy.parameter_names if _plain(each) == _plain(name)), None)


def with_parameter(policy: AnyPolicy, name: str, value: Any) -> AnyPolicy:
    """A policy with one of its parameters set, as its operator sets it.

    Raises:
        ValueError: the value has the wrong type.
    """
    value = copy.deepcopy(value)
    taken = copy.deepcopy(policy.converted(name, value))
    return replace(policy, parameters={**policy.parameters, name: taken}, configured={**policy.configured, name: value})


def ended(policies: Iterable[AnyPolicy]) -> Iterator[str]:
    """The exemptions that have ended, a line each, for people."""
    for policy in policies:
        for exemption in policy.exemptions:
            if exemption.expired:
                yield f"policy {policy.name}: an exemption ended {exemption.end} ({exemption.reason}): remove it"


@dataclass(frozen=True)
class _Entry:
    """An entry, whose place is known to those who are told what is wrong with it."""

    entry: PolicyEntry
    path: FieldPath
    find: Callable[[Finding], None]

    def load(self, folder: Path) -> list[AnyPolicy]:
        """Its policies; those with whom nothing is wrong."""
        try:
            found = loading.find(self.entry.use, folder)
        except ConfigurationError as error:
            self._wrong(("use",), "Invalid value", str(error))
            return []
        if len(found) > 1 and (self.entry.name is not None or self.entry.parameters):
            names = ", ".join(policy.name for policy in found)
            beside = "name" if self.entry.name is not None else "parameters"
            self._wrong((beside,), "Forbidden", f"for one policy alone; choose one by use: FILE.py:POLICY, of {names}")
            return []
        return [self._configured(policy) for policy in found]

    def _configured(self, policy: AnyPolicy) -> AnyPolicy:
        entry = self.entry
        if entry.mode not in _MODES[policy.kind]:
            self._wrong(("mode",), "Forbidden", f"not for {policy.kind} policies, whose answers have no place for it")
        if entry.on_error == "allow" and policy.kind == "authenticating":
            self._wrong(("onError",), "Forbidden", "a failure of an authenticator cannot be allowed")
        return replace(
            self._with_parameters(policy),
            name=entry.name or policy.name,
            within=self._within(policy.kind),
            mode=entry.mode,
            on_error=entry.on_error or policy.on_error,
            timeout=policy.timeout if entry.timeout is None else entry.timeout,
            isolation=policy.isolation if entry.isolation is None else entry.isolation,
            exemptions=tuple(
                self._exemption(each, number, policy.kind) for number, each in enumerate(entry.exemptions)
            ),
            base=policy,
        )

    def _with_parameters(self, policy: AnyPolicy) -> AnyPolicy:
        missing = dict.fromkeys(policy.unset)
        for given, value in self.entry.parameters.items():
            name = parameter(policy, given)
            if name is None:
                self._wrong(("parameters", given), "Forbidden", _unknown(given, policy))
                continue
            missing.pop(name, None)
            try:
                policy = with_parameter(policy, name, value)
            except ValueError as error:
                self._wrong(("parameters", given), "Invalid value", str(error), value)
        for name in missing:
            self._wrong(("parameters", name), "Required value", "")
        return policy

    def _within(self, kind: Kind) -> Match | None:
        match = self.entry.match
        if match is None:
            return None
        self._check_fields(match, ("match",), kind, _NARROWED[kind])
        if kind == "authorizing":
            return _access_match(match)
        if kind == "image_policy":
            return ImageMatch(_namespaces(match))
        return _admission_match(match)

    def _exemption(self, entry: ExemptionEntry, number: int, kind: Kind) -> Exemption:
        self._check_fields(entry, ("exemptions", number), kind, _EXEMPTED[kind] | {"reason", "expires"})
        return Exemption(
            entry.reason,
            _globs(entry.namespaces),
            _globs(entry.names),
            _globs(entry.users),
            entry.images or (),
            entry.expires,
        )

    def _check_fields(self, model: Model, path: FieldPath, kind: Kind, known: frozenset[str]) -> None:
        for name in sorted(model.model_fields_set - known):
            alias = type(model).model_fields[name].alias or name
            self._wrong((*path, alias), "Forbidden", f"not for {kind} policies")

    def _wrong(self, path: FieldPath, kind: Any, detail: str, value: Any = None) -> None:
        self.find(Finding((*self.path, *path), kind, detail, "" if value is None else shown(value)))


def _plain(name: str) -> str:
    """A name without what tells spellings apart: exemptImages and exempt_images are one."""
    return name.replace("_", "").lower()


def _unknown(name: str, policy: AnyPolicy) -> str:
    near = get_close_matches(name, policy.parameter_names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(policy.parameter_names) or 'none'}"
    return f"no parameter of policy {policy.name}; {hint}"


def _globs(texts: tuple[str, ...] | None) -> Globs:
    return EVERYTHING if texts is None else Globs(texts)


def _namespaces(match: Narrowing) -> Globs:
    if match.exclude_namespaces is None:
        return _globs(match.namespaces)
    return Globs(match.namespaces, match.exclude_namespaces)


def _admission_match(match: Narrowing) -> AdmissionMatch:
    return AdmissionMatch(
        rules(match.resources or ("*/*",)),
        operations(match.operations or ("*",)),
        _namespaces(match),
        _globs(match.names),
        Selector.parse(match.object_selector),
        _globs(match.users),
        _globs(match.groups),
    )


def _access_match(match: Narrowing) -> AccessMatch:
    either = match.resources is not None or match.paths is not None
    return AccessMatch(
        rules(match.resources or (() if either else ("*/*",))),
        Globs(match.paths or (() if either else ("*",))),
        _globs(match.verbs),
        _namespaces(match),
        _globs(match.names),
        _globs(match.users),
        _globs(match.groups),
    )
