"""Requires containers to have CPU and memory limits, up to a maximum.

A limit of 0 means no limit to kubelets, so it is denied. Ephemeral containers, which cannot have limits, are exempt.
Limits of the pod as a whole (``spec.resources``) do not count.

Parameters:
    cpu: the maximum CPU limit, such as ``2`` or ``500m``; empty for no maximum, ``-1`` if no limit is required.
    memory: the maximum memory limit, such as ``4Gi``; empty for no maximum, ``-1`` if no limit is required.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``cpu="2", memory="4Gi"``::

    spec: {containers: [{name: web, image: web, resources: {limits: {cpu: 500m, memory: 4096Mi}}}]}

Denied::

    spec: {containers: [{name: web, image: web, resources: {limits: {memory: 5G}}}]}
"""

from collections.abc import Iterator, Mapping, Sequence

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, parse_quantity, validating


@validating("pods", "pods/resize", *WORKLOADS, operations=["CREATE", "UPDATE"])
def container_limits(
    review: AdmissionReview, *, cpu: str = "", memory: str = "", exempt_images: Sequence[str] = ()
) -> Decision:
    """Deny regular and init containers without limits, or with limits above the maximum."""
    maximums = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value != "-1"}
    return deny_new(review, _violations, maximums, exempt_images)


def _violations(review: AdmissionReview, maximums: Mapping[str, str], exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers(except_images=exempt_images):
        if container.kind == "ephemeralContainers":
            continue
        for name, maximum in maximums.items():
            limits = field(container.spec, "resources.limits", dict) or {}
            problem = _problem(limits.get(name), maximum)
            if problem:
                yield f"{container}: resources.limits.{name} {problem}"


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
