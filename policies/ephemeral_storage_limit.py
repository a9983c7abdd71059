"""Containers have a limit of the node's disk that they fill, and none beyond what one container may take.

A limit of 0 is none: kubelets take it so. Ephemeral containers, which cannot have limits, are not asked.

Parameters:
    ephemeral_storage: the greatest limit allowed, such as ``500Mi``; empty if any will do.
    exempt_images: images whose containers are not asked; with a trailing ``*`` all that begin so, in a registry that
        is always named whole.

Allowed, with ``ephemeral_storage="1Gi"``::

    spec: {containers: [{name: web, image: web, resources: {limits: {ephemeral-storage: 1G}}}]}

Denied::

    spec: {containers: [{name: web, image: web, resources: {limits: {ephemeral-storage: 1.5Gi}}}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, parse_quantity, validating


@validating("pods", "replicationcontrollers", "podtemplates", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def ephemeral_storage_limit(
    review: AdmissionReview, *, ephemeral_storage: str = "", exempt_images: Sequence[str] = ()
) -> Decision:
    """Deny objects with an ordinary or init container that lacks the limit, or whose limit is too high."""
    found = introduced(review, lambda each: _violations(each, ephemeral_storage, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, most: str, exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers():
        if container.kind == "ephemeralContainers" or container.is_of(exempt_images):
            continue
        limits = field(container.spec, "resources.limits", dict) or {}
        problem = _problem(limits.get("ephemeral-storage"), most)
        if problem:
            yield f"{container}: ephemeral-storage limit {problem}"


def _problem(limit: object, most: str) -> str:
    allowed = f", at most {most} is allowed" if most else ""
    if limit is None:
        return f"is missing{allowed}"
    try:
        amount = parse_quantity(limit)
    except ValueError as error:
        return f"is an {error}"
    if amount <= 0:
        return f"{limit} is none{allowed}"
    return f"{limit} is too high{allowed}" if most and amount > parse_quantity(most) else ""
