"""Containers request processor time and memory, and no more than one container may reserve.

What a container does not request it requests by its limit, as API servers have it. Ephemeral containers, which cannot
have requests, are not asked. What a pod says as a whole (``spec.resources``) does not count.

Parameters:
    cpu: the greatest request allowed, such as ``2`` or ``500m``; empty if any will do, ``-1`` if there need be none.
    memory: the greatest request allowed, such as ``4Gi``; empty if any will do, ``-1`` if there need be none.
    exempt_images: images whose containers are not asked; with a trailing ``*`` all that begin so, in a registry that
        is always named whole.

Allowed, with ``cpu="2", memory="4Gi"``::

    spec: {containers: [{name: web, image: web, resources: {requests: {cpu: 500m}, limits: {memory: 1Gi}}}]}

Denied::

    spec: {containers: [{name: web, image: web, resources: {requests: {memory: 5G}}}]}
"""

from collections.abc import Iterator, Mapping, Sequence

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
def container_requests(
    review: AdmissionReview, *, cpu: str = "", memory: str = "", exempt_images: Sequence[str] = ()
) -> Decision:
    """Deny objects with an ordinary or init container that lacks a request, or whose request is too high."""
    greatest = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value != "-1"}
    found = introduced(review, lambda each: _violations(each, greatest, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, greatest: Mapping[str, str], exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers():
        if container.kind == "ephemeralContainers" or container.is_of(exempt_images):
            continue
        requests = field(container.spec, "resources.requests", dict) or {}
        limits = field(container.spec, "resources.limits", dict) or {}
        for resource, most in greatest.items():
            request = requests.get(resource)
            problem = _problem(limits.get(resource) if request is None else request, most)
            if problem:
                yield f"{container}: {resource} request {problem}"


def _problem(request: object, most: str) -> str:
    allowed = f", at most {most} is allowed" if most else ""
    if request is None:
        return f"is missing{allowed}"
    try:
        amount = parse_quantity(request)
    except ValueError as error:
        return f"is an {error}"
    return f"{request} is too high{allowed}" if most and amount > parse_quantity(most) else ""
