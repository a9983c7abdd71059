"""From an entry of a configuration to its policies, with all that their operator says of them."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from webhooks.config.models import ExemptionEntry, MatchOverride, PolicyEntry
from webhooks.config.validation import FieldError, FieldPath, Model, format_value
from webhooks.errors import ConfigurationError
from webhooks.kube.globs import EVERYTHING, Globs
from webhooks.kube.label_selectors import Selector
from webhooks.kube.resource_rules import Rule, intersect, parse_rules
from webhooks.policy import loader
from webhooks.policy.exemptions import Exemption
from webhooks.policy.matching import AccessMatch, AdmissionMatch, ImageMatch, parse_operations
from webhooks.policy.model import AnyPolicy, Match
from webhooks.reviews.kinds import Kind

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


@dataclass(frozen=True)
class Entry:
    """An entry, and where it stands.

    Attributes:
        entry: what it says.
        path: of it in its configuration.
        find: told of whatever is wrong with it.
    """

    entry: PolicyEntry
    path: FieldPath
    find: Callable[[FieldError], None]

    def load(self, folder: Path) -> list[AnyPolicy]:
        """Its policies; those with whom nothing is wrong."""
        try:
            found = loader.find(self.entry.use, folder)
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
            operator_match=self._within(policy),
            mode=entry.mode,
            on_error=entry.on_error or policy.on_error,
            timeout=policy.timeout if entry.timeout is None else entry.timeout,
            isolation=policy.isolation if entry.isolation is None else entry.isolation,
            exemptions=tuple(
                self._exemption(each, number, policy.kind) for number, each in enumerate(entry.exemptions)
            ),
            derived_from=policy,
        )

    def _with_parameters(self, policy: AnyPolicy) -> AnyPolicy:
        missing = dict.fromkeys(policy.missing_parameters)
        spelled: dict[str, str] = {}
        for given, value in self.entry.parameters.items():
            name = parameter(policy, given)
            if name is None:
                self._wrong(("parameters", given), "Forbidden", _unknown(given, policy))
                continue
            if spelled.setdefault(name, given) != given:
                self._wrong(("parameters", given), "Forbidden", f"{spelled[name]} is the same parameter")
            missing.pop(name, None)
            try:
                policy = with_parameter(policy, name, value)
            except ValueError as error:
                self._wrong(("parameters", given), "Invalid value", str(error), value)
        for name in missing:
            self._wrong(("parameters", name), "Required value", "")
        return policy

    def _within(self, policy: AnyPolicy) -> Match | None:
        match, kind = self.entry.match, policy.kind
        if match is None:
            return None
        self._check_fields(match, ("match",), kind, _NARROWED[kind])
        if kind == "image_policy":
            return ImageMatch(_namespaces(match))
        within = _access_match(match) if kind == "authorizing" else _admission_match(match)
        for name in _nothing_left(policy.match, within):
            self._wrong(("match", name), "Invalid value", f"policy {policy.name} asks for nothing of that")
        return within

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
        self.find(FieldError((*self.path, *path), kind, detail, "" if value is None else format_value(value)))


def parameter(policy: AnyPolicy, name: str) -> str | None:
    """The parameter of a policy that is meant by a name; None for none: exemptImages and exempt_images are one."""
    return next((each for each in policy.parameter_names if _plain(each) == _plain(name)), None)


def with_parameter(policy: AnyPolicy, name: str, value: Any) -> AnyPolicy:
    """A policy with one of its parameters set, as its operator sets it.

    Raises:
        ValueError: the value has the wrong type.
    """
    value = copy.deepcopy(value)
    taken = copy.deepcopy(policy.convert_parameter(name, value))
    return replace(
        policy,
        parameters={**policy.parameters, name: taken},
        operator_parameters={**policy.operator_parameters, name: value},
    )


def _plain(name: str) -> str:
    """A name without what tells spellings apart: exemptImages, exempt_images and exempt-images are one."""
    return name.replace("_", "").replace("-", "").lower()


def _unknown(name: str, policy: AnyPolicy) -> str:
    near = get_close_matches(name, policy.parameter_names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(policy.parameter_names) or 'none'}"
    return f"no parameter of policy {policy.name}; {hint}"


def _globs(texts: tuple[str, ...] | None) -> Globs:
    return EVERYTHING if texts is None else Globs(texts)


def _namespaces(match: MatchOverride) -> Globs:
    if match.exclude_namespaces is None:
        return _globs(match.namespaces)
    return Globs(match.namespaces, match.exclude_namespaces)


def _admission_match(match: MatchOverride) -> AdmissionMatch:
    return AdmissionMatch(
        parse_rules(match.resources or ("*/*",)),
        parse_operations(match.operations or ("*",)),
        _namespaces(match),
        _globs(match.names),
        Selector.parse(match.object_selector),
        _globs(match.users),
        _globs(match.groups),
    )


def _nothing_left(wanted: Match, within: Match) -> Iterator[str]:
    """The fields of a narrowing under which nothing is left of what a policy asks for."""
    if isinstance(wanted, AdmissionMatch) and isinstance(within, AdmissionMatch):
        if not wanted.operations & within.operations:
            yield "operations"
        if not _meet(wanted.rules, within.rules):
            yield "resources"
    elif isinstance(wanted, AccessMatch) and isinstance(within, AccessMatch):
        only_resources = within.rules and not within.paths.texts
        if only_resources and not _meet(wanted.rules, within.rules):
            yield "resources"


def _meet(some: Sequence[Rule], others: Sequence[Rule]) -> bool:
    return any(intersect(one, other) for one in some for other in others)


def _access_match(match: MatchOverride) -> AccessMatch:
    either = match.resources is not None or match.paths is not None
    return AccessMatch(
        parse_rules(match.resources or (() if either else ("*/*",))),
        Globs(match.paths or (() if either else ("*",))),
        _globs(match.verbs),
        _namespaces(match),
        _globs(match.names),
        _globs(match.users),
        _globs(match.groups),
    )
