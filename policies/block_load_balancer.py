"""Services ask for no load balancer from outside the cluster: those cost money and are reached from everywhere.

Allowed::

    apiVersion: v1
    kind: Service
    spec: {type: ClusterIP, ports: [{port: 80}]}

Denied::

    apiVersion: v1
    kind: Service
    spec: {type: LoadBalancer, ports: [{port: 80}]}
"""

from collections.abc import Iterator

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, validating


@validating("core/services", operations=["CREATE", "UPDATE"])
def block_load_balancer(review: AdmissionReview) -> Decision:
    """Deny Services of type LoadBalancer."""
    found = introduced(review, _violations)
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview) -> Iterator[str]:
    if field(review.target, "spec.type", str) == "LoadBalancer":
        yield "spec.type: LoadBalancer is not allowed, use ClusterIP"
