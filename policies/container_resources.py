"""Requires containers to have certain resource requests and limits.

A limit of 0 means no limit to kubelets, so it is denied. If a request is missing, the limit counts as the request, as
in API servers. Ephemeral containers, which have neither, are exempt. Resources of the pod as a whole
(``spec.resources``) do not count.

Parameters:
    limits: the resources that need a limit, such as ``cpu``, ``memory`` or ``ephemeral-storage``.
    requests: the resources that need a request.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``limits=["memory"], requests=["cpu", "memory"]``::

    spec: {containers: [{name: web, image: web, resources: {limits: {memory: 1Gi}, requests: {cpu: 100m}}}]}

Denied::

    spec: {containers: [{name: web, image: web, resources: {requests: {cpu: 100m, memory: 1Gi}}}]}
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, parse_quantity, validating


@validating("pods", "pods/resize", *WORKLOADS, operations=["CREATE", "UPDATE"])
def container_resources(
    review: AdmissionReview,
    *,
    limits: Sequence[str] = ("cpu", "memory"),
    requests: Sequence[str] = ("cpu", "memory"),
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny regular and init containers without one of the limits or requests."""
    return deny_new(review, _violations, limits, requests, exempt_images)


def _violations(
    review: AdmissionReview, limits: Sequence[str], requests: Sequence[str], exempt_images: Sequence[str]
) -> Iterator[str]:
    for container in review.containers(except_images=exempt_images):
        if container.kind == "ephemeralContainers":
            continue
        existing_limits = field(container.spec, "resources.limits", dict) or {}
        existing_requests = field(container.spec, "resources.requests", dict) or {}
        for name in limits:
            if _amount(existing_limits.get(name)) <= 0:
                yield f"{container}: resources.limits.{name} is missing"
        for name in requests:
            request = existing_requests.get(name)
            if _amount(existing_limits.get(name) if request is None else request) < 0:
                yield f"{container}: resources.requests.{name} is missing"


def _amount(value: object) -> Fraction | int:
    """Return the amount of a quantity; -1 if it is missing or invalid."""
    try:
        return parse_quantity(value)
    except ValueError:
        return -1
