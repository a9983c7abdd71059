"""Builds policies from the entries of a configuration file."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from webhooks.config.models import ExemptionEntry, MatchOverride, PolicyEntry
from webhooks.config.validation import ErrorKind, FieldError, FieldPath, Model, format_value
from webhooks.errors import ConfigurationError
from webhooks.kube.globs import EVERYTHING, Globs
from webhooks.kube.label_selectors import Selector
from webhooks.kube.resource_rules import Rule, intersect, parse_rules
from webhooks.policy import loader
from webhooks.policy.exemptions import Exemption
from webhooks.policy.matching import AccessMatch, AdmissionMatch, ImageMatch, parse_operations
from webhooks.policy.model import AnyPolicy, Match, Mode
from webhooks.reviews.kinds import Kind

_ADMISSION_FIELDS = frozenset(
    ("resources", "operations", "namespaces", "exclude_namespaces", "names", "object_selector", "users", "groups")
)
_MATCH_FIELDS: Mapping[Kind, frozenset[str]] = {
    "mutating": _ADMISSION_FIELDS,
    "validating": _ADMISSION_FIELDS,
    "authorizing": frozenset(
        ("resources", "verbs", "paths", "namespaces", "exclude_namespaces", "names", "users", "groups")
    ),
    "authenticating": frozenset(),
    "image_policy": frozenset(("namespaces", "exclude_namespaces")),
}
_EXEMPTION_FIELDS: Mapping[Kind, frozenset[str]] = {
    "mutating": frozenset(("namespaces", "names", "users", "images")),
    "validating": frozenset(("namespaces", "names", "users", "images")),
    "authorizing": frozenset(("namespaces", "names", "users")),
    "authenticating": frozenset(),
    "image_policy": frozenset(("namespaces", "images")),
}
_MODES: Mapping[Kind, tuple[Mode, ...]] = {
    "mutating": ("enforce", "warn", "audit"),
    "validating": ("enforce", "warn", "audit"),
    "authorizing": ("enforce",),
    "authenticating": ("enforce",),
    "image_policy": ("enforce", "audit"),
}


@dataclass(frozen=True)
class EntryLoader:
    """Loads the policies of an entry.

    Attributes:
        entry: the entry.
        path: its path in the configuration file.
        report: called with each error in the entry.
    """

    entry: PolicyEntry
    path: FieldPath
    report: Callable[[FieldError], None]

    def load(self, folder: Path) -> list[AnyPolicy]:
        """Load the policies. The result is usable only if no error was reported.

        Args:
            folder: the folder that paths are relative to.
        """
        try:
            policies = loader.find(self.entry.use, folder)
        except ConfigurationError as error:
            self._report(("use",), "Invalid value", str(error))
            return []
        if len(policies) > 1 and (self.entry.name is not None or self.entry.parameters):
            names = ", ".join(policy.name for policy in policies)
            field = "name" if self.entry.name is not None else "parameters"
            detail = f"only for a single policy: select one by FILE.py:POLICY in use; the policies are {names}"
            self._report((field,), "Forbidden", detail)
            return []
        return [self._configure(policy) for policy in policies]

    def _configure(self, policy: AnyPolicy) -> AnyPolicy:
        entry = self.entry
        if entry.mode not in _MODES[policy.kind]:
            modes = ", ".join(_MODES[policy.kind])
            self._report(("mode",), "Forbidden", f"{policy.kind} policies support only: {modes}")
        if entry.on_error == "allow" and policy.kind == "authenticating":
            self._report(("onError",), "Forbidden", "the failure of an authenticating policy cannot be allowed")
        return replace(
            self._set_parameters(policy),
            name=entry.name or policy.name,
            operator_match=self._build_match(policy),
            mode=entry.mode,
            on_error=entry.on_error or policy.on_error,
            timeout=policy.timeout if entry.timeout is None else entry.timeout,
            isolation=policy.isolation if entry.isolation is None else entry.isolation,
            exemptions=tuple(
                self._build_exemption(exemption, number, policy.kind)
                for number, exemption in enumerate(entry.exemptions)
            ),
            derived_from=policy,
        )

    def _set_parameters(self, policy: AnyPolicy) -> AnyPolicy:
        missing = dict.fromkeys(policy.missing_parameters)
        aliases: dict[str, str] = {}
        for alias, value in self.entry.parameters.items():
            name = find_parameter(policy, alias)
            if name is None:
                self._report(("parameters", alias), "Forbidden", _describe_unknown_parameter(alias, policy))
                continue
            if aliases.setdefault(name, alias) != alias:
                self._report(("parameters", alias), "Forbidden", f"{aliases[name]} is the same parameter")
            missing.pop(name, None)
            try:
                policy = set_parameter(policy, name, value)
            except ValueError as error:
                self._report(("parameters", alias), "Invalid value", str(error), format_value(value))
        for name in missing:
            self._report(("parameters", name), "Required value", "")
        return policy

    def _build_match(self, policy: AnyPolicy) -> Match | None:
        override, kind = self.entry.match, policy.kind
        if override is None:
            return None
        self._check_fields(override, ("match",), kind, _MATCH_FIELDS[kind])
        if kind == "image_policy":
            return ImageMatch(_build_namespaces(override))
        match = _build_access_match(override) if kind == "authorizing" else build_admission_match(override)
        for name in _find_disjoint_fields(policy.match, match):
            detail = f"policy {policy.name} matches none of these, so it would never run"
            self._report(("match", name), "Invalid value", detail)
        return match

    def _build_exemption(self, entry: ExemptionEntry, number: int, kind: Kind) -> Exemption:
        self._check_fields(entry, ("exemptions", number), kind, _EXEMPTION_FIELDS[kind] | {"reason", "expires"})
        return Exemption(
            entry.reason,
            _build_globs(entry.namespaces),
            _build_globs(entry.names),
            _build_globs(entry.users),
            entry.images or (),
            entry.expires,
        )

    def _check_fields(self, model: Model, path: FieldPath, kind: Kind, supported: frozenset[str]) -> None:
        for name in sorted(model.model_fields_set - supported):
            alias = type(model).model_fields[name].alias or name
            self._report((*path, alias), "Forbidden", f"not supported for {kind} policies")

    def _report(self, path: FieldPath, kind: ErrorKind, detail: str, value: str = "") -> None:
        self.report(FieldError((*self.path, *path), kind, detail, value))


def find_parameter(policy: AnyPolicy, alias: str) -> str | None:
    """Return the name of a parameter, which may be given as exemptImages, exempt-images or exempt_images."""
    return next((name for name in policy.parameter_names if _normalize(name) == _normalize(alias)), None)


def set_parameter(policy: AnyPolicy, name: str, value: Any) -> AnyPolicy:
    """Return a copy of a policy with a parameter set by the operator.

    Raises:
        ValueError: the value has the wrong type.
    """
    value = copy.deepcopy(value)  # parts of a document are shared by aliases
    converted = copy.deepcopy(policy.convert_parameter(name, value))
    return replace(
        policy,
        parameters={**policy.parameters, name: converted},
        operator_parameters={**policy.operator_parameters, name: value},
    )


def _normalize(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _describe_unknown_parameter(name: str, policy: AnyPolicy) -> str:
    similar = get_close_matches(name, policy.parameter_names, n=1)
    if similar:
        return f"policy {policy.name} has no such parameter; did you mean {similar[0]}?"
    return f"policy {policy.name} has no such parameter; its parameters: {', '.join(policy.parameter_names) or 'none'}"


def _build_globs(texts: tuple[str, ...] | None) -> Globs:
    return EVERYTHING if texts is None else Globs(texts)


def _build_namespaces(override: MatchOverride) -> Globs:
    if override.exclude_namespaces is None:
        return _build_globs(override.namespaces)
    return Globs(override.namespaces, override.exclude_namespaces)


def build_admission_match(override: MatchOverride) -> AdmissionMatch:
    """Return the conditions of an admission policy."""
    return AdmissionMatch(
        parse_rules(override.resources or ("*/*",)),
        parse_operations(override.operations or ("*",)),
        _build_namespaces(override),
        _build_globs(override.names),
        Selector.parse(override.object_selector),
        _build_globs(override.users),
        _build_globs(override.groups),
    )


def _build_access_match(override: MatchOverride) -> AccessMatch:
    has_either = override.resources is not None or override.paths is not None
    return AccessMatch(
        parse_rules(override.resources or (() if has_either else ("*/*",))),
        Globs(override.paths or (() if has_either else ("*",))),
        _build_globs(override.verbs),
        _build_namespaces(override),
        _build_globs(override.names),
        _build_globs(override.users),
        _build_globs(override.groups),
    )


def _find_disjoint_fields(author: Match, operator: Match) -> Iterator[str]:
    """Yield the fields of the operator's match that exclude everything in the author's match."""
    if isinstance(author, AdmissionMatch) and isinstance(operator, AdmissionMatch):
        if not author.operations & operator.operations:
            yield "operations"
        if not _intersects(author.rules, operator.rules):
            yield "resources"
    elif isinstance(author, AccessMatch) and isinstance(operator, AccessMatch):
        only_resources = operator.rules and not operator.paths.texts
        if only_resources and not _intersects(author.rules, operator.rules):
            yield "resources"


def _intersects(rules: Sequence[Rule], others: Sequence[Rule]) -> bool:
    return any(intersect(rule, other) for rule in rules for other in others)
