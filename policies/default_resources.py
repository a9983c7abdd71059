"""Containers request what they need and stop at a limit, if need be the ones given here.

A container that requests nothing is put onto nodes that are full, and one without a limit takes what others need. What
a container says for itself stays: each resource is filled in alone, and a limit is never below what the container
requests. Where it has a limit alone, that is its request too, as the API has it. Ephemeral containers may have no
resources, and pods that say theirs as a whole (``spec.resources``) are left alone. Pods get it when they are made,
whoever makes them.

Parameters:
    requests: quantities by the resource's name, for containers that request nothing of it.
    limits: likewise, for containers without a limit of it.

Changed, with ``requests={"cpu": "100m", "memory": "64Mi"}, limits={"memory": "128Mi"}``::

    spec: {containers: [{name: web, image: web, resources: {requests: {memory: 1Gi}}}]}
    ---
    spec:
      containers: [{name: web, image: web, resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {memory: 1Gi}}}]

Left as it is::

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
    """Give containers the requests and limits that they lack."""
    if field(review.object, "spec.resources", dict):
        return Allow()
    for container in review.containers():
        if container.kind != "ephemeralContainers":
            _complete(container.spec, requests, limits)
    return Replace(review.object)


def _complete(container: dict[str, Any], requests: Mapping[str, str], limits: Mapping[str, str]) -> None:
    resources = field(container, "resources", dict) or {}
    own_requests, own_limits = (field(resources, name, dict) or {} for name in ("requests", "limits"))
    lacking = {name: value for name, value in requests.items() if name not in own_requests and name not in own_limits}
    requested = {**own_requests, **lacking}
    limited = {name: _at_least(requested.get(name), value) for name, value in limits.items() if name not in own_limits}
    added = {"requests": requested} if lacking else {}
    if limited:
        added["limits"] = {**own_limits, **limited}
    if added:
        container["resources"] = {**resources, **added}


def _at_least(requested: str | None, limit: str) -> str:
    if requested is None or parse_quantity(requested) <= parse_quantity(limit):
        return limit
    return requested
