"""Requires containers to have CPU and memory requests, up to a maximum.

If a request is missing, the limit counts as the request, as in API servers. Ephemeral containers, which cannot have
requests, are exempt. Requests of the pod as a whole (``spec.resources``) do not count.

Parameters:
    cpu: the maximum CPU request, such as ``2`` or ``500m``; empty for no maximum, ``-1`` if no request is required.
    memory: the maximum memory request, such as ``4Gi``; empty for no maximum, ``-1`` if no request is required.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``cpu="2", memory="4Gi"``::

    spec: {containers: [{name: web, image: web, resources: {requests: {cpu: 500m}, limits: {memory: 1Gi}}}]}

Denied::

    spec: {containers: [{name: web, image: web, resources: {requests: {memory: 5G}}}]}
"""

from collections.abc import Iterator, Mapping, Sequence

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, parse_quantity, validating


@validating("pods", "pods/resize", *WORKLOADS, operations=["CREATE", "UPDATE"])
def container_requests(
    review: AdmissionReview, *, cpu: str = "", memory: str = "", exempt_images: Sequence[str] = ()
) -> Decision:
    """Deny regular and init containers without requests, or with requests above the maximum."""
    maximums = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value != "-1"}
    return deny_new(review, _violations, maximums, exempt_images)


def _violations(review: AdmissionReview, maximums: Mapping[str, str], exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers(except_images=exempt_images):
        if container.kind == "ephemeralContainers":
            continue
        requests = field(container.spec, "resources.requests", dict) or {}
        limits = field(container.spec, "resources.limits", dict) or {}
        for name, maximum in maximums.items():
            request = requests.get(name)
            problem = _problem(limits.get(name) if request is None else request, maximum)
            if problem:
                yield f"{container}: resources.requests.{name} {problem}"


def _problem(request: object, maximum: str) -> str:
    remedy = f": set it to at most {maximum}" if maximum else ""
    if request is None:
        return f"is missing{remedy}"
    try:
        amount = parse_quantity(request)
    except ValueError as error:
        return f"is an {error}"
    return f"is {request}{remedy}" if maximum and amount > parse_quantity(maximum) else ""
