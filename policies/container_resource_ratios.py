"""Containers may take no more than so many times what they request, so that nodes are not promised to many at once.

Both resources must be limited, and a limit of 0 is none: kubelets take it so. What a container does not request it
requests by its limit, as API servers have it. Ephemeral containers, which can have neither, are not asked. What a pod
says as a whole (``spec.resources``) does not count.

Parameters:
    ratio: how many times its request a limit may be.
    cpu_ratio: the same for processor time alone; empty for the same.
    exempt_images: images whose containers are not asked; with a trailing ``*`` all that begin so, in a registry that
        is always named whole.

Allowed, with ``ratio="2", cpu_ratio="10"``::

    spec:
      containers:
        - name: web
          image: web
          resources: {limits: {cpu: "1", memory: 2Gi}, requests: {cpu: 100m, memory: 1Gi}}

Denied::

    spec:
      containers:
        - name: web
          image: web
          resources: {limits: {cpu: "1", memory: 2Gi}, requests: {cpu: 100m, memory: 1000Mi}}
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
def container_resource_ratios(
    review: AdmissionReview, *, ratio: str = "2", cpu_ratio: str = "", exempt_images: Sequence[str] = ()
) -> Decision:
    """Deny objects with an ordinary or init container whose limit is missing, or too far beyond its request."""
    ratios = {"cpu": cpu_ratio or ratio, "memory": ratio}
    found = introduced(review, lambda each: _violations(each, ratios, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, ratios: Mapping[str, str], exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers():
        if container.kind == "ephemeralContainers" or container.is_of(exempt_images):
            continue
        limits = field(container.spec, "resources.limits", dict) or {}
        requests = field(container.spec, "resources.requests", dict) or {}
        for resource, ratio in ratios.items():
            problem = _problem(limits.get(resource), requests.get(resource), ratio)
            if problem:
                yield f"{container}: {resource} {problem}"


def _problem(limit: object, request: object, ratio: str) -> str:
    if limit is None:
        return "limit is missing"
    try:
        most, least = parse_quantity(limit), parse_quantity(limit if request is None else request)
    except ValueError as error:
        return f"has an {error}"
    if most <= 0:
        return f"limit {limit} is none"
    if most <= least * parse_quantity(ratio):
        return ""
    return f"limit {limit} is more than {ratio} times its request" + ("" if request is None else f" {request}")
