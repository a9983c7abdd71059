"""Registrations: which admission reviews an API server sends us, and what it does while we do not answer."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from webhooks.engine.dispatcher import budget
from webhooks.kube import registered
from webhooks.kube.registered import MAX_TIMEOUT
from webhooks.kube.resource_rules import Rule, both
from webhooks.manifests import conditions, kinds, selectors
from webhooks.manifests.scope import PolicyScope
from webhooks.manifests.target import NAMESPACED_GROUPS, STARTUP, FailurePolicy, Target
from webhooks.policy.model import AnyPolicy, SideEffects

Json: TypeAlias = dict[str, Any]
AdmissionKind: TypeAlias = Literal["mutating", "validating"]

DEFAULT_TIMEOUT = 10  # seconds, the API's own

_PATHS: Mapping[AdmissionKind, str] = {"mutating": "/admission/mutate", "validating": "/admission/validate"}
_KINDS: Mapping[AdmissionKind, str] = {
    "mutating": registered.MUTATING,
    "validating": registered.VALIDATING,
}
_SIDE_EFFECTS: Mapping[SideEffects, str] = {"none": "None", "none_on_dry_run": "NoneOnDryRun"}
_DOMAIN: Mapping[AdmissionKind, str] = {"mutating": "mutate.webhooks.svc.io", "validating": "validate.webhooks.svc.io"}


@dataclass(frozen=True)
class Webhook:
    """One entry of a registration: some policies that are asked together.

    Attributes:
        kind: of the policies.
        wanted: what each of them wants, in the order in which they run.
        only: the one that is asked, at a path of its own; None for all of the kind.
        failure: what becomes of a request while we do not answer.
    """

    kind: AdmissionKind
    wanted: tuple[PolicyScope, ...]
    only: AnyPolicy | None
    failure: FailurePolicy

    @property
    def name(self) -> str:
        """What users are told who denied their request; unique among the registrations of a cluster."""
        prefix = "" if self.only is None else f"{self.only.dns_name}."
        return f"{prefix}{_DOMAIN[self.kind]}"

    @property
    def path(self) -> str:
        """Where it is answered."""
        return _PATHS[self.kind] if self.only is None else f"{_PATHS[self.kind]}/{self.only.dns_name}"

    @property
    def needed(self) -> float:
        """The seconds that its policies may take, as far as they say: one after another, or all at once."""
        timeouts = [each.policy.timeout for each in self.wanted if each.policy.timeout is not None]
        return float(sum(timeouts) if self.kind == "mutating" else max(timeouts, default=0))

    @property
    def can_hinder_start(self) -> bool:
        """Whether it is asked about what is written before anything runs on nodes, and must answer."""
        return self._hinders_everything or any(
            rule.group in ("*", group) and rule.resource == resource
            for rule in self._hindering
            for group, resource in STARTUP
        )

    @property
    def _hinders_everything(self) -> bool:
        """Whether it is asked about all that is in no namespace, if only of one group, which may be the network's."""
        return any(rule.resource == "*" and rule.group not in NAMESPACED_GROUPS for rule in self._hindering)

    @property
    def _hindering(self) -> list[Rule]:
        """What cannot be written while we do not answer."""
        writing = [each for each in self.wanted if each.operations & {"CREATE", "UPDATE"}]
        return [rule for each in writing for rule in each.rules] if self.failure == "Fail" else []

    def timeout(self, target: Target) -> int:
        """The seconds that the API server waits: as many as are chosen, or as its policies need."""
        return target.timeout or enough(self.needed, DEFAULT_TIMEOUT)

    def written(self, target: Target) -> Json:
        """As a registration has it."""
        selector = selectors.written(selectors.objects(self.wanted))
        namespaces = selectors.written(selectors.namespaces(self.wanted, target))
        found: Json = {
            "name": self.name,
            "clientConfig": _client(self.path, target),
            "rules": [
                kind.rule() for kind in kinds.of((rule, each.operations) for each in self.wanted for rule in each.rules)
            ],
            "matchPolicy": "Equivalent",
            **({"namespaceSelector": namespaces} if namespaces else {}),
            **({"objectSelector": selector} if selector else {}),
        }
        if said := self.conditions(target):
            found["matchConditions"] = [each.written() for each in said]
        found |= {
            "admissionReviewVersions": ["v1", "v1beta1"],
            "sideEffects": self._side_effects(),
            "failurePolicy": self.failure,
            "timeoutSeconds": self.timeout(target),
        }
        return found | ({"reinvocationPolicy": "IfNeeded"} if self.kind == "mutating" else {})

    def conditions(self, target: Target) -> list[conditions.Condition]:
        """Its match conditions, where the cluster knows them."""
        if not target.has_conditions:
            return []
        said = conditions.of(self.wanted)
        if self.can_hinder_start:
            said.append(conditions.not_starting(target.component_groups, everything=self._hinders_everything))
        return said

    def narrowed(self, target: Target) -> list[str]:
        """What is to be known of policies that name namespaces which are exempt, beside others."""
        found = [(each.policy, selectors.named_in_vain(each, target)) for each in self.wanted]
        return [
            f"Policy {policy.name!r} names {', '.join(names)}, and is not asked there: exempt."
            for policy, names in found
            if names
        ]

    def _side_effects(self) -> str:
        effects = {each.policy.side_effects for each in self.wanted}
        return _SIDE_EFFECTS["none" if effects == {"none"} else "none_on_dry_run"]


def enough(needed: float, least: int) -> int:
    """The whole seconds for a caller to wait that leave policies as many as they need; not less than some."""
    return next((each for each in range(least, MAX_TIMEOUT) if budget(each) >= needed), MAX_TIMEOUT)


def webhooks(kind: AdmissionKind, policies: Sequence[AnyPolicy], target: Target) -> list[Webhook]:
    """The entries for all policies of a kind, in their order.

    One asks all of them; each has one of its own if that is wished, or they differ in what a failure is to mean, or in
    the version of a resource.
    """
    wanted = [PolicyScope.of(policy) for policy in policies if policy.kind == kind]
    wanted = [each for each in wanted if each.rules and each.operations]
    failures = {target.failure(each.policy) for each in wanted}
    if target.per_policy or len(failures) > 1 or _hinders_converting(wanted):
        return [Webhook(kind, (each,), each.policy, target.failure(each.policy)) for each in wanted]
    return [Webhook(kind, tuple(wanted), None, failure) for failure in failures]


def _hinders_converting(wanted: Sequence[PolicyScope]) -> bool:
    """Whether one policy wants a version of a resource that another wants in others too.

    Requests are converted to the version that a rule names, but not where another rule of the webhook takes them as
    they are; so the one would miss what it had seen alone.
    """
    return any(
        rule.version not in ("*", other.version) and both(replace(rule, version="*"), replace(other, version="*"))
        for each in wanted
        for rule in each.rules
        for another in wanted
        for other in another.rules
    )


def registration(kind: AdmissionKind, entries: Sequence[Webhook], target: Target) -> Json:
    """The object that registers entries of a kind."""
    return {
        "apiVersion": registered.API_VERSION,
        "kind": _KINDS[kind],
        "metadata": {"name": name(target), "labels": labels(target.name)},
        "webhooks": [entry.written(target) for entry in entries],
    }


def name(target: Target) -> str:
    """Of the registrations; those in files have names that no other has."""
    return f"{target.name}.static.k8s.io" if target.static else target.name


def labels(instance: str) -> dict[str, str]:
    """The labels of all objects: whose they are."""
    return {
        "app.kubernetes.io/name": "webhooks",
        "app.kubernetes.io/instance": instance,
        registered.MANAGED_BY: registered.OURS,
    }


def _client(path: str, target: Target) -> Json:
    where: Json = (
        {"service": {"namespace": target.namespace, "name": target.name, "port": 443, "path": path}}
        if target.by == "service"
        else {"url": f"{target.url}{path}"}
    )
    bundle = target.ca_bundle
    return where | ({} if bundle is None else {"caBundle": base64.b64encode(bundle).decode()})
