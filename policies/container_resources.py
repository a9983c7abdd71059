"""Containers say what they need and what they may take at most, so that pods are placed well and none starves others.

A limit of 0 is none: kubelets take it so. What a container does not request it requests by its limit, as API servers
have it. Ephemeral containers, which can have neither, are not asked. What a pod says as a whole
(``spec.resources``) does not count.

Parameters:
    limits: the resources that must be limited, such as ``cpu``, ``memory`` or ``ephemeral-storage``.
    requests: the resources that must be requested.
    exempt_images: images whose containers are not asked; with a trailing ``*`` all that begin so, in a registry that
        is always named whole.

Allowed, with ``limits=["memory"], requests=["cpu", "memory"]``::

    spec: {containers: [{name: web, image: web, resources: {limits: {memory: 1Gi}, requests: {cpu: 100m}}}]}

Denied::

    spec: {containers: [{name: web, image: web, resources: {requests: {cpu: 100m, memory: 1Gi}}}]}
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, parse_quantity, validating


@validating(
    "pods",
    "pods/resize",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def container_resources(
    review: AdmissionReview,
    *,
    limits: Sequence[str] = ("cpu", "memory"),
    requests: Sequence[str] = ("cpu", "memory"),
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny objects with an ordinary or init container that lacks one of the limits or requests."""
    found = introduced(review, lambda each: _violations(each, limits, requests, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(
    review: AdmissionReview, limits: Sequence[str], requests: Sequence[str], exempt_images: Sequence[str]
) -> Iterator[str]:
    for container in review.containers():
        if container.kind == "ephemeralContainers" or container.is_of(exempt_images):
            continue
        limited = field(container.spec, "resources.limits", dict) or {}
        requested = field(container.spec, "resources.requests", dict) or {}
        for name in limits:
            if _amount(limited.get(name)) <= 0:
                yield f"{container} has no {name} limit"
        for name in requests:
            request = requested.get(name)
            if _amount(limited.get(name) if request is None else request) < 0:
                yield f"{container} has no {name} request"


def _amount(value: object) -> Fraction | int:
    """Of a quantity; less than nothing if it is none."""
    try:
        return parse_quantity(value)
    except ValueError:
        return -1
