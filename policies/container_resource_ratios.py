"""Limits the ratio of limits to requests of containers, so that nodes are not overcommitted.

Both CPU and memory limits are required. A limit of 0 means no limit to kubelets, so it is denied. If a request is
missing, the limit counts as the request, as in API servers. Ephemeral containers, which have neither, are exempt.
Resources of the pod as a whole (``spec.resources``) do not count.

Parameters:
    ratio: the maximum ratio of a limit to its request.
    cpu_ratio: the maximum ratio for CPU; empty for that of ``ratio``.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

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

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, parse_quantity, validating


@validating("pods", "pods/resize", *WORKLOADS, operations=["CREATE", "UPDATE"])
def container_resource_ratios(
    review: AdmissionReview, *, ratio: str = "2", cpu_ratio: str = "", exempt_images: Sequence[str] = ()
) -> Decision:
    """Deny regular and init containers without limits, or with limits too far above the requests."""
    ratios = {"cpu": cpu_ratio or ratio, "memory": ratio}
    return deny_new(review, _violations, ratios, exempt_images)


def _violations(review: AdmissionReview, ratios: Mapping[str, str], exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers(except_images=exempt_images):
        if container.kind == "ephemeralContainers":
            continue
        limits = field(container.spec, "resources.limits", dict) or {}
        requests = field(container.spec, "resources.requests", dict) or {}
        for name, ratio in ratios.items():
            problem = _problem(limits.get(name), requests.get(name), ratio)
            if problem:
                yield f"{container}: resources.limits.{name} {problem}"


def _problem(limit: object, request: object, ratio: str) -> str:
    if limit is None:
        return "is missing"
    request = limit if request is None else request
    try:
        limit_amount, request_amount = parse_quantity(limit), parse_quantity(request)
    except ValueError as error:
        return f"or its request is an {error}"
    if limit_amount <= 0:
        return f"is {limit}, which means no limit"
    if limit_amount <= request_amount * parse_quantity(ratio):
        return ""
    return f"is {limit}: set it to at most {ratio} times the request, which is {request}"
