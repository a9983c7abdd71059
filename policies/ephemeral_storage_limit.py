"""Requires containers to have a limit of ephemeral storage on the node, up to a maximum.

A limit of 0 means no limit to kubelets, so it is denied. Ephemeral containers, which cannot have limits, are exempt.

Parameters:
    ephemeral_storage: the maximum limit, such as ``500Mi``; empty for no maximum.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``ephemeral_storage="1Gi"``::

    spec: {containers: [{name: web, image: web, resources: {limits: {ephemeral-storage: 1G}}}]}

Denied::

    spec: {containers: [{name: web, image: web, resources: {limits: {ephemeral-storage: 1.5Gi}}}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, parse_quantity, validating


@validating("pods", *WORKLOADS, operations=["CREATE", "UPDATE"])
def ephemeral_storage_limit(
    review: AdmissionReview, *, ephemeral_storage: str = "", exempt_images: Sequence[str] = ()
) -> Decision:
    """Deny regular and init containers without the limit, or with a limit above the maximum."""
    return deny_new(review, _violations, ephemeral_storage, exempt_images)


def _violations(review: AdmissionReview, maximum: str, exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers(except_images=exempt_images):
        if container.kind == "ephemeralContainers":
            continue
        limits = field(container.spec, "resources.limits", dict) or {}
        problem = _problem(limits.get("ephemeral-storage"), maximum)
        if problem:
            yield f"{container}: resources.limits.ephemeral-storage {problem}"


def _problem(limit: object, maximum: str) -> str:
    remedy = f": set it to at most {maximum}" if maximum else ""
    if limit is None:
        return f"is missing{remedy}"
    try:
        amount = parse_quantity(limit)
    except ValueError as error:
        return f"is an {error}"
    if amount <= 0:
        return f"is {limit}, which means no limit{remedy}"
    return f"is {limit}{remedy}" if maximum and amount > parse_quantity(maximum) else ""
