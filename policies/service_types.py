"""Allows only certain types of Services, by default none that can be reached from outside of the cluster.

A NodePort is open on every node and bypasses ingresses. A LoadBalancer costs money, may be public, and also opens node
ports.

Parameters:
    allowed_types: the allowed types: ``ClusterIP``, ``ExternalName``, ``LoadBalancer``, ``NodePort``.

Allowed, with ``allowed_types=["ClusterIP", "LoadBalancer"]``::

    apiVersion: v1
    kind: Service
    spec: {type: LoadBalancer, ports: [{port: 80}]}

Denied::

    apiVersion: v1
    kind: Service
    spec: {type: NodePort, ports: [{port: 80}]}
"""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from webhooks import AdmissionReview, Decision, deny_new, field, validating

Type: TypeAlias = Literal["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]


@validating("core/services", operations=["CREATE", "UPDATE"])
def service_types(
    review: AdmissionReview, *, allowed_types: Sequence[Type] = ("ClusterIP", "ExternalName")
) -> Decision:
    """Deny Services of another type."""
    return deny_new(review, _violations, allowed_types)


def _violations(review: AdmissionReview, allowed: Sequence[str]) -> Iterator[str]:
    type_ = field(review.target, "spec.type", str) or "ClusterIP"
    if type_ not in allowed:
        yield f"spec.type must be {' or '.join(allowed) or 'an allowed type'}, not {type_}"
