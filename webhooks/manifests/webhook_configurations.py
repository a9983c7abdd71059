"""Webhook configurations: which admission requests API servers send, and what they do if the server is unavailable."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from webhooks.engine.dispatcher import budget
from webhooks.kube import api_groups
from webhooks.kube.api_groups import MAX_TIMEOUT
from webhooks.kube.resource_rules import Rule, intersect
from webhooks.manifests.conditions import Condition, admission_conditions, startup_exemption
from webhooks.manifests.scope import PolicyScope, merge_rules
from webhooks.manifests.selectors import listed_exempt_namespaces, namespace_selector, object_selector
from webhooks.manifests.target import NAMESPACED_GROUPS, STARTUP_RESOURCES, FailurePolicy, Target
from webhooks.policy.model import AnyPolicy, SideEffects

Json: TypeAlias = dict[str, Any]
AdmissionKind: TypeAlias = Literal["mutating", "validating"]

ADMISSION_KINDS: tuple[AdmissionKind, ...] = ("mutating", "validating")
DEFAULT_TIMEOUT = 10  # seconds; the default of the API

_PATHS: Mapping[AdmissionKind, str] = {"mutating": "/admission/mutate", "validating": "/admission/validate"}
_API_KINDS: Mapping[AdmissionKind, str] = {"mutating": api_groups.MUTATING, "validating": api_groups.VALIDATING}
_SIDE_EFFECTS: Mapping[SideEffects, str] = {"none": "None", "none_on_dry_run": "NoneOnDryRun"}
_DOMAINS: Mapping[AdmissionKind, str] = {"mutating": "mutate.webhooks.svc.io", "validating": "validate.webhooks.svc.io"}


@dataclass(frozen=True)
class Webhook:
    """One webhook of a webhook configuration.

    Attributes:
        kind: the kind of its policies.
        scopes: the scopes of its policies, in the order of their evaluation.
        only: the only policy, if the webhook has a path of its own; None for all policies of the kind.
        failure_policy: what happens to a request if the server does not respond.
    """

    kind: AdmissionKind
    scopes: tuple[PolicyScope, ...]
    only: AnyPolicy | None
    failure_policy: FailurePolicy

    @property
    def name(self) -> str:
        """The name, which users see if their request is denied. It is unique in a cluster."""
        prefix = "" if self.only is None else f"{self.only.dns_name}."
        return f"{prefix}{_DOMAINS[self.kind]}"

    @property
    def path(self) -> str:
        """The path of its URL."""
        return _PATHS[self.kind] if self.only is None else f"{_PATHS[self.kind]}/{self.only.dns_name}"

    @property
    def policy_seconds(self) -> float:
        """The seconds that its policies may take together, from their timeouts; 0 if none has a timeout.

        Mutating policies run one after another, validating policies at the same time.
        """
        timeouts = [scope.policy.timeout for scope in self.scopes if scope.policy.timeout is not None]
        return float(sum(timeouts) if self.kind == "mutating" else max(timeouts, default=0))

    @property
    def can_block_startup(self) -> bool:
        """Whether it must respond to requests that a cluster sends before any pod can run."""
        return self._blocks_cluster_scoped or any(
            rule.group in ("*", group) and rule.resource == resource
            for rule in self._blocking_rules
            for group, resource in STARTUP_RESOURCES
        )

    @property
    def _blocks_cluster_scoped(self) -> bool:
        """Whether it must respond for all cluster-scoped resources of a group, such as a network plugin's."""
        return any(rule.resource == "*" and rule.group not in NAMESPACED_GROUPS for rule in self._blocking_rules)

    @property
    def _blocking_rules(self) -> list[Rule]:
        """The resources that cannot be written if the server does not respond."""
        writing = [scope for scope in self.scopes if scope.operations & {"CREATE", "UPDATE"}]
        return [rule for scope in writing for rule in scope.rules] if self.failure_policy == "Fail" else []

    def timeout(self, target: Target) -> int:
        """Return the timeout in seconds: the chosen one, or one that suits the policies."""
        return target.timeout or timeout_for(self.policy_seconds, DEFAULT_TIMEOUT)

    def match_conditions(self, target: Target) -> list[Condition]:
        """Return the match conditions; none if the cluster does not support them."""
        if not target.has_match_conditions:
            return []
        conditions = admission_conditions(self.scopes)
        if self.can_block_startup:
            cluster_scoped = self._blocks_cluster_scoped
            conditions.append(startup_exemption(target.component_groups, cluster_scoped=cluster_scoped))
        return conditions

    def to_dict(self, target: Target) -> Json:
        """Return the webhook as a webhook configuration contains it."""
        selectors = {
            "namespaceSelector": namespace_selector(self.scopes, target),
            "objectSelector": object_selector(self.scopes),
        }
        conditions = [condition._asdict() for condition in self.match_conditions(target)]
        rules = merge_rules((rule, scope.operations) for scope in self.scopes for rule in scope.rules)
        return {
            "name": self.name,
            "clientConfig": _client_config(self.path, target),
            "rules": [rule.to_dict() for rule in rules],
            "matchPolicy": "Equivalent",
            **{name: selector for name, selector in selectors.items() if selector},
            **({"matchConditions": conditions} if conditions else {}),
            "admissionReviewVersions": ["v1", "v1beta1"],
            "sideEffects": self._side_effects(),
            "failurePolicy": self.failure_policy,
            "timeoutSeconds": self.timeout(target),
            **({"reinvocationPolicy": "IfNeeded"} if self.kind == "mutating" else {}),
        }

    def exemption_notes(self, target: Target) -> list[str]:
        """Return a note for each policy that lists exempt namespaces: it is not called for them."""
        return [
            f"Policy {scope.policy.name!r} is not called for namespaces that are exempt: {', '.join(namespaces)}."
            for scope in self.scopes
            if (namespaces := listed_exempt_namespaces(scope, target))
        ]

    def _side_effects(self) -> str:
        effects = {scope.policy.side_effects for scope in self.scopes}
        return _SIDE_EFFECTS["none" if effects == {"none"} else "none_on_dry_run"]


def timeout_for(policy_seconds: float, minimum: int) -> int:
    """Return the timeout of a client, in whole seconds, that leaves policies the time that they need."""
    return next((seconds for seconds in range(minimum, MAX_TIMEOUT) if budget(seconds) >= policy_seconds), MAX_TIMEOUT)


def build_webhooks(kind: AdmissionKind, policies: Sequence[AnyPolicy], target: Target) -> list[Webhook]:
    """Return the webhooks for all policies of a kind, in their order.

    One webhook calls all policies. Each policy has its own if the operator chose so, and if policies differ in their
    failure policy or in the version of a resource.
    """
    scopes = [PolicyScope.from_policy(policy) for policy in policies if policy.kind == kind]
    scopes = [scope for scope in scopes if scope.rules and scope.operations]
    failure_policies = {target.failure_policy_for(scope.policy) for scope in scopes}
    if target.per_policy or len(failure_policies) > 1 or _prevents_conversion(scopes):
        return [Webhook(kind, (scope,), scope.policy, target.failure_policy_for(scope.policy)) for scope in scopes]
    return [Webhook(kind, tuple(scopes), None, failure_policy) for failure_policy in failure_policies]


def _prevents_conversion(scopes: Sequence[PolicyScope]) -> bool:
    """Check whether one policy matches one version of a resource, and another policy matches other versions too.

    API servers convert a request to the version of a rule, but not if another rule of the webhook matches the original
    version. The first policy would miss requests that it would receive on its own.
    """
    return any(
        rule.version not in ("*", other.version) and intersect(replace(rule, version="*"), replace(other, version="*"))
        for scope in scopes
        for rule in scope.rules
        for other_scope in scopes
        for other in other_scope.rules
    )


def build_configuration(kind: AdmissionKind, webhooks: Sequence[Webhook], target: Target) -> Json:
    """Return the webhook configuration of a kind."""
    suffix = ".static.k8s.io" if target.static else ""  # which API servers require for configurations in files
    return {
        "apiVersion": api_groups.ADMISSION_REGISTRATION,
        "kind": _API_KINDS[kind],
        "metadata": {"name": f"{target.name}{suffix}", "labels": labels_for(target.name)},
        "webhooks": [webhook.to_dict(target) for webhook in webhooks],
    }


def labels_for(instance: str) -> dict[str, str]:
    """Return the labels of all objects of an instance of this server."""
    return {
        "app.kubernetes.io/name": "webhooks",
        "app.kubernetes.io/instance": instance,
        api_groups.MANAGED_BY_LABEL: api_groups.MANAGED_BY_VALUE,
    }


def _client_config(path: str, target: Target) -> Json:
    address: Json = (
        {"service": {"namespace": target.namespace, "name": target.name, "port": 443, "path": path}}
        if target.reached_by == "service"
        else {"url": f"{target.url}{path}"}
    )
    bundle = target.ca_bundle
    return address | ({} if bundle is None else {"caBundle": base64.b64encode(bundle).decode()})
