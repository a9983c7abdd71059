"""Sets resource requests and limits of containers that have none.

A container without requests may be placed on a full node, and one without limits may starve others. Each resource is
set separately, and existing values are kept. A limit is never set below the request. A container that has only a limit
needs no request, because API servers use the limit. Ephemeral containers, which cannot have resources, and pods that
set them as a whole (``spec.resources``) are not changed. Pods are changed when they are created, not their workloads.

Parameters:
    requests: quantities by resource name, for containers without a request.
    limits: quantities by resource name, for containers without a limit.

Changed, with ``requests={"cpu": "100m", "memory": "64Mi"}, limits={"memory": "128Mi"}``::

    spec: {containers: [{name: web, image: web, resources: {requests: {memory: 1Gi}}}]}
    ---
    spec:
      containers: [{name: web, image: web, resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {memory: 1Gi}}}]

Unchanged::

    spec: {containers: [{name: web, image: web, resources: {limits: {cpu: "1", memory: 1Gi}}}]}
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from webhooks import AdmissionReview, Allow, Mutation, Replace, field, mutating, parse_quantity


@mutating("pods", operations=["CREATE"])
def default_resources(
    review: AdmissionReview,
    *,
    requests: Mapping[str, str] = MappingProxyType({"cpu": "100m", "memory": "128Mi"}),
    limits: Mapping[str, str] = MappingProxyType({}),
) -> Mutation:
    """Set the missing requests and limits."""
    if field(review.object, "spec.resources", dict):
        return Allow()
    for container in review.containers():
        if container.kind != "ephemeralContainers":
            _set_defaults(container.spec, requests, limits)
    return Replace(review.object)


def _set_defaults(container: dict[str, Any], requests: Mapping[str, str], limits: Mapping[str, str]) -> None:
    resources = field(container, "resources", dict) or {}
    own_requests, own_limits = (field(resources, name, dict) or {} for name in ("requests", "limits"))
    new_requests = {
        name: value for name, value in requests.items() if name not in own_requests and name not in own_limits
    }
    all_requests = {**own_requests, **new_requests}
    new_limits = {
        name: _at_least(all_requests.get(name), value) for name, value in limits.items() if name not in own_limits
    }
    changed = {"requests": all_requests} if new_requests else {}
    if new_limits:
        changed["limits"] = {**own_limits, **new_limits}
    if changed:
        container["resources"] = {**resources, **changed}


def _at_least(request: str | None, limit: str) -> str:
    if request is None or parse_quantity(request) <= parse_quantity(limit):
        return limit
    return request
