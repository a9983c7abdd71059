"""Containers have limits of processor time and memory, and none beyond what one container may take.

A limit of 0 is none: kubelets take it so. Ephemeral containers, which cannot have limits, are not asked. What a pod
says as a whole (``spec.resources``) does not count.

Parameters:
    cpu: the greatest limit allowed, such as ``2`` or ``500m``; empty if any will do, ``-1`` if there need be none.
    memory: the greatest limit allowed, such as ``4Gi``; empty if any will do, ``-1`` if there need be none.
    exempt_images: images whose containers are not asked; with a trailing ``*`` all that begin so, in a registry that
        is always named whole.

Allowed, with ``cpu="2", memory="4Gi"``::

    spec: {containers: [{name: web, image: web, resources: {limits: {cpu: 500m, memory: 4096Mi}}}]}

Denied::

    spec: {containers: [{name: web, image: web, resources: {limits: {memory: 5G}}}]}
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
def container_limits(
    review: AdmissionReview, *, cpu: str = "", memory: str = "", exempt_images: Sequence[str] = ()
) -> Decision:
    """Deny objects with an ordinary or init container that lacks a limit, or whose limit is too high."""
    greatest = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value != "-1"}
    found = introduced(review, lambda each: _violations(each, greatest, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, greatest: Mapping[str, str], exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers():
        if container.kind == "ephemeralContainers" or container.is_of(exempt_images):
            continue
        limits = field(container.spec, "resources.limits", dict) or {}
        for resource, most in greatest.items():
            problem = _problem(limits.get(resource), most)
            if problem:
                yield f"{container}: {resource} limit {problem}"


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
