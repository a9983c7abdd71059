"""Adds labels to objects, such as a cost centre, a region or a cluster.

A label that an object already has keeps its value. Pod templates in workloads are not changed: a new label there would
restart all pods.

Parameters:
    labels: the labels, as a mapping of keys to values.

Changed, with ``labels={"region": "eu-1", "example.com/team": "web"}``::

    metadata: {name: web, labels: {app: web, region: eu-2}}
    ---
    metadata: {name: web, labels: {app: web, region: eu-2, example.com/team: web}}

Unchanged::

    kind: Namespace
    metadata: {name: team-a, labels: {region: eu-2, example.com/team: ""}}
"""

from collections.abc import Mapping
from types import MappingProxyType

from webhooks import AdmissionReview, Allow, Mutation, Patch, mutating, pointer


@mutating("namespaces", "pods", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def add_labels(review: AdmissionReview, *, labels: Mapping[str, str] = MappingProxyType({})) -> Mutation:
    """Add the labels that the object does not have."""
    existing = review.labels
    missing = {key: value for key, value in labels.items() if key not in existing}
    if not missing:
        return Allow()
    if not existing:
        return Patch([{"op": "add", "path": "/metadata/labels", "value": missing}])
    return Patch(
        [{"op": "add", "path": pointer("metadata", "labels", key), "value": value} for key, value in missing.items()]
    )
