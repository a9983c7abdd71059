"""Objects get labels that their authors need not think of: a cost centre, a region, a cluster.

A label that the object has stays, whatever its value. Pod templates inside workloads are left alone: a label more in
one starts every pod of it anew.

Parameters:
    labels: values by the labels' keys.

Changed, with ``labels={"region": "eu-1", "example.com/team": "web"}``::

    metadata: {name: web, labels: {app: web, region: eu-2}}
    ---
    metadata: {name: web, labels: {app: web, region: eu-2, example.com/team: web}}

Left as it is::

    kind: Namespace
    metadata: {name: team-a, labels: {region: eu-2, example.com/team: ""}}
"""

from collections.abc import Mapping
from types import MappingProxyType

from webhooks import AdmissionReview, Allow, Mutation, Patch, mutating, pointer


@mutating("namespaces", "pods", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def add_labels(review: AdmissionReview, *, labels: Mapping[str, str] = MappingProxyType({})) -> Mutation:
    """Add the labels that are not there."""
    have = review.labels
    missing = {key: value for key, value in labels.items() if key not in have}
    if not missing:
        return Allow()
    if not have:
        return Patch([{"op": "add", "path": "/metadata/labels", "value": missing}])
    return Patch(
        [{"op": "add", "path": pointer("metadata", "labels", key), "value": value} for key, value in missing.items()]
    )
