"""Rejects manifests that could lock a cluster out, and those that API servers would reject."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from webhooks.engine.dispatcher import budget
from webhooks.errors import ConfigurationError
from webhooks.kube.api_groups import MAX_TIMEOUT
from webhooks.manifests.selectors import listed_namespaces
from webhooks.manifests.target import MATCH_CONDITIONS, OLDEST_VERSION, STATIC_WEBHOOKS, Target
from webhooks.manifests.webhook_configurations import Webhook, timeout_for
from webhooks.policy.loader import describe_origin
from webhooks.policy.model import AnyPolicy

_DNS_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SERVICE_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_CALLED_BY_FLAG = ("authorizing", "authenticating", "image_policy")


def validate(webhooks: Sequence[Webhook], policies: Sequence[AnyPolicy], target: Target) -> None:
    """Check that the manifests are safe, and that API servers accept them.

    Args:
        webhooks: the admission webhooks.
        policies: the policies for which API servers need flags or a webhook configuration.
        target: the cluster.

    Raises:
        ConfigurationError: with all errors, one line each.
    """
    errors = chain(
        _check_target(policies, target),
        _check_namespaces(target),
        _check_webhook_names(webhooks),
        *(_check_webhook(webhook, target) for webhook in webhooks),
    )
    unique = dict.fromkeys(errors)
    if unique:
        raise ConfigurationError("\n".join(unique))


def _check_target(policies: Sequence[AnyPolicy], target: Target) -> Iterator[str]:
    if target.version < OLDEST_VERSION:
        yield f"--cluster-version {target.version}: the oldest supported version is {OLDEST_VERSION}"
    if target.static and target.version < STATIC_WEBHOOKS:
        yield f"--static: requires Kubernetes {STATIC_WEBHOOKS} or later, not {target.version}"
    if target.static and target.reached_by == "service":
        yield "--static: webhook configurations in files cannot use a Service: give --reached-by url or localhost"
    if target.static and target.ca_bundle is None:
        yield "--static: no program sets caBundle in files, so API servers would trust no certificate: give --ca-bundle"
    called_by_flag = [policy for policy in policies if policy.kind in _CALLED_BY_FLAG]
    if called_by_flag and target.url is None:
        yield (
            f"{_describe(called_by_flag[0])}: API servers find {called_by_flag[0].kind} policies by their flags, which "
            "cannot name a Service: give --url or --reached-by localhost, or only admission: --only "
            "webhook-configurations"
        )
    for name in set(target.failure_policies) - {policy.name for policy in policies}:
        yield f"--failure-policy {name}=...: there is no policy with this name"
    if not _SERVICE_NAME.fullmatch(target.name):
        yield (
            f"--name {target.name!r}: not a valid name: use at most 63 lowercase letters, digits and hyphens, "
            "with a letter first"
        )


def _check_namespaces(target: Target) -> Iterator[str]:
    for namespace in target.included_namespaces:
        if namespace in target.exempt_namespaces:
            yield f"--include-namespace {namespace} and --exempt-namespace {namespace} are mutually exclusive"
        elif namespace not in target.default_exempt_namespaces:
            exempt = ", ".join(sorted(target.default_exempt_namespaces | set(target.exempt_namespaces)))
            yield f"--include-namespace {namespace}: not an exempt namespace; these are: {exempt}"
    for option, names in (("--namespace", (target.namespace,)), ("--exempt-namespace", target.exempt_namespaces)):
        for name in names:
            if not _DNS_LABEL.fullmatch(name):
                yield f"{option} {name!r}: not a valid namespace: use lowercase letters, digits and hyphens"


def _check_webhook_names(webhooks: Sequence[Webhook]) -> Iterator[str]:
    policies: dict[str, AnyPolicy] = {}
    for webhook in webhooks:
        policy = webhook.only
        if policy is None:
            continue
        if not _DNS_NAME.fullmatch(webhook.name):
            yield f"{_describe(policy)}: its webhook would have the invalid name {webhook.name!r}: rename the policy"
        other = policies.setdefault(webhook.name, policy)
        if other is not policy:
            yield (
                f"{_describe(policy)}: its webhook would have the same name as that of policy {other.name!r}, "
                f"{webhook.name!r}: rename one of them"
            )


def _check_webhook(webhook: Webhook, target: Target) -> Iterator[str]:
    if webhook.failure_policy == "Fail":
        yield from _check_included_namespaces(target)
    if webhook.can_block_startup and not target.has_match_conditions:
        yield _describe_startup_deadlock(webhook)
    yield from _check_timeouts(webhook, target)
    for scope in webhook.scopes:
        if scope.policy.side_effects == "some":
            yield (
                f"{_describe(scope.policy)}: it has side effects on dry runs, and API servers reject such webhooks: "
                "check review.dry_run in the policy, and declare side_effects='none_on_dry_run'"
            )
        namespaces = listed_namespaces([scope])
        if namespaces and namespaces <= set(target.all_exempt_namespaces):
            yield (
                f"{_describe(scope.policy)}: it matches only exempt namespaces, so it would never be called: "
                f"{', '.join(sorted(namespaces))}: give --include-namespace {min(namespaces)}, or omit "
                f"--exempt-namespace, and --failure-policy {scope.policy.name}=Ignore"
            )


def _check_included_namespaces(target: Target) -> Iterator[str]:
    for namespace in sorted(target.default_exempt_namespaces & set(target.included_namespaces)):
        reason = "the server runs there" if namespace == target.namespace else "the cluster starts from there"
        yield (
            f"--include-namespace {namespace}: with failurePolicy Fail no pod could start there while the server does "
            f"not respond, and {reason}: give --failure-policy Ignore too, or keep the namespace exempt"
        )


def _describe_startup_deadlock(webhook: Webhook) -> str:
    policy = next(
        scope.policy for scope in webhook.scopes if Webhook(webhook.kind, (scope,), None, "Fail").can_block_startup
    )
    return (
        f"{_describe(policy)}: it matches resources that nodes write before any pod can run (nodes, certificate "
        "requests ...), with failurePolicy Fail: while the server does not respond, no node becomes ready, and the "
        "server never starts. List the resources that it is for, give "
        f"--failure-policy {policy.name}=Ignore, or a --cluster-version of at least {MATCH_CONDITIONS}, where these "
        "writes can be exempt"
    )


def _check_timeouts(webhook: Webhook, target: Target) -> Iterator[str]:
    policies = [scope.policy for scope in webhook.scopes if scope.policy.timeout is not None]
    timeouts = ", ".join(f"{policy.name} {policy.timeout:g} s" for policy in policies)
    timeout = webhook.timeout(target)
    needed = f"its policies may take {webhook.policy_seconds:g} s ({timeouts})"
    if webhook.policy_seconds > budget(MAX_TIMEOUT):
        yield (
            f"{webhook.name}: {needed}, but API servers wait for at most {MAX_TIMEOUT} s, which leaves policies "
            f"{budget(MAX_TIMEOUT):g} s: reduce their timeouts"
        )
    elif webhook.policy_seconds > budget(timeout):
        yield (
            f"--timeout {timeout}: {webhook.name}: {needed}, but this leaves them {budget(timeout):g} s: give "
            f"--timeout {timeout_for(webhook.policy_seconds, 1)}, or reduce their timeouts"
        )


def _describe(policy: AnyPolicy) -> str:
    return f"{describe_origin(policy)}: policy {policy.name!r}"
