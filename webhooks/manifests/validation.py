"""What is refused, and why: registrations that would lock a cluster out, or that could not be kept."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from webhooks.engine.dispatcher import budget
from webhooks.errors import ConfigurationError
from webhooks.kube.registered import MAX_TIMEOUT
from webhooks.manifests import selectors
from webhooks.manifests.target import MATCH_CONDITIONS, OLDEST, STATIC_MANIFESTS, Target
from webhooks.manifests.webhook_configurations import Webhook, enough
from webhooks.policy.model import AnyPolicy

_DNS_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SERVICE_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_ASKED_BY_FLAG = ("authorizing", "authenticating", "image_policy")


def check(webhooks: Sequence[Webhook], policies: Sequence[AnyPolicy], target: Target) -> None:
    """Refuse what must not be written.

    Raises:
        ConfigurationError: with every reason, a line each.
    """
    reasons = list(chain(_of_target(policies, target), _of_names(webhooks), *(_of(each, target) for each in webhooks)))
    if reasons:
        raise ConfigurationError("\n".join(dict.fromkeys(reasons)))


def _of_target(policies: Sequence[AnyPolicy], target: Target) -> Iterator[str]:
    if target.version < OLDEST:
        yield f"--cluster-version {target.version}: {OLDEST} is the oldest that registrations are written for"
    if target.static and target.version < STATIC_MANIFESTS:
        yield f"--static: API servers read registrations from files from {STATIC_MANIFESTS} on, not in {target.version}"
    if target.static and target.by == "service":
        yield "--static: registrations in files name no Service: give --reached-by url or --reached-by localhost"
    asked = [policy for policy in policies if policy.kind in _ASKED_BY_FLAG]
    if asked and target.url is None:
        yield (
            f"{_of_policy(asked[0])}: the API server asks it at an address that is in its flags, which no Service has: "
            "give --url, or --reached-by localhost"
        )
    for name in set(target.failure_policies) - {policy.name for policy in policies}:
        yield f"--failure-policy {name}=...: there is no policy of that name"
    yield from _of_namespaces(target)
    if target.static and target.ca_bundle is None:
        yield "--static: nobody fills caBundle into files, so the API server would trust nobody: give --ca-bundle"


def _of_namespaces(target: Target) -> Iterator[str]:
    exempt = replace(target, covered=()).exempt
    for namespace in target.covered:
        if namespace in target.exempted:
            yield f"--include-namespace {namespace} and --exempt-namespace {namespace}: one of them"
        elif namespace not in exempt:
            yield f"--include-namespace {namespace}: it is not exempt; {', '.join(exempt)} are"
    for option, names in (("--namespace", (target.namespace,)), ("--exempt-namespace", target.exempted)):
        for name in names:
            if not _DNS_LABEL.fullmatch(name):
                yield f"{option} {name!r}: no namespace has such a name: give small letters, digits and hyphens"
    if not _SERVICE_NAME.fullmatch(target.name):
        yield (
            f"--name {target.name!r}: API servers take no such name: give small letters, digits and hyphens, a letter "
            "first, 63 of them at most"
        )


def _of_names(webhooks: Sequence[Webhook]) -> Iterator[str]:
    seen: dict[str, Webhook] = {}
    for each in webhooks:
        if each.only is None:
            continue
        if not _DNS_NAME.fullmatch(each.name):
            yield f"{_of_policy(each.only)}: its name makes no DNS name, {each.name!r}: give it another"
        other = seen.setdefault(each.name, each)
        if other is not each and other.only is not None:
            yield (
                f"{_of_policy(each.only)}: its webhook would have the name of that of policy {other.only.name!r}, "
                f"{each.name!r}: give one of them another"
            )


def _of(webhook: Webhook, target: Target) -> Iterator[str]:
    if webhook.failure == "Fail":
        for namespace in target.covered:
            yield (
                f"--include-namespace {namespace}: with failurePolicy Fail nothing could start there "
                f"while we do not answer"
                f"{', and we start there' if namespace == target.namespace else ', and a cluster starts from there'}: "
                "give --failure-policy Ignore too, or leave it exempt"
            )
    if webhook.can_hinder_start and not target.has_conditions:
        hindering = [each for each in webhook.wanted if Webhook(webhook.kind, (each,), None, "Fail").can_hinder_start]
        yield (
            f"{_of_policy(hindering[0].policy)}: it wants what nodes write before any pod can run (nodes, certificate "
            "requests ...), with failurePolicy Fail: while we do not answer no node is ready, and we never start. "
            f"Name the resources that it is about, give --failure-policy {hindering[0].policy.name}=Ignore, or a "
            f"--cluster-version from {MATCH_CONDITIONS} on, where these writes of the cluster's own can be exempt"
        )
    yield from _of_timeouts(webhook, target)
    for each in webhook.wanted:
        if each.policy.side_effects == "some":
            yield (
                f"{_of_policy(each.policy)}: it has side effects on dry runs, so API servers refuse each of them, and "
                "such a registration: have it look at review.dry_run, and say side_effects='none_on_dry_run'"
            )
        named = selectors.named_namespaces([each])
        if named and named <= set(target.exempt):
            yield (
                f"{_of_policy(each.policy)}: it wants {', '.join(sorted(named))} alone, which is exempt, so nobody "
                f"would ask it: give --include-namespace {min(named)}, or leave --exempt-namespace out, "
                f"and --failure-policy {each.policy.name}=Ignore"
            )


def _of_timeouts(webhook: Webhook, target: Target) -> Iterator[str]:
    policies = [each.policy for each in webhook.wanted if each.policy.timeout is not None]
    told = ", ".join(f"{policy.name} {policy.timeout:g} s" for policy in policies)
    given = webhook.timeout(target)
    if webhook.needed > budget(MAX_TIMEOUT):
        yield (
            f"{webhook.name}: its policies may take {webhook.needed:g} s ({told}), and API servers wait for "
            f"{MAX_TIMEOUT} s at most, of which policies have {budget(MAX_TIMEOUT):g} s: give them less time"
        )
    elif webhook.needed > budget(given):
        yield (
            f"--timeout {given}: the policies of {webhook.name} may take {webhook.needed:g} s ({told}), and would have "
            f"{budget(given):g} s: give --timeout {enough(webhook.needed, 1)}, or them less"
        )


def _of_policy(policy: AnyPolicy) -> str:
    return f"{policy.origin}: policy {policy.name!r}"
