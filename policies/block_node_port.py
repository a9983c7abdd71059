"""Services open no ports on the nodes.

Such a port is open on every node of the cluster, past any ingress. Services of type LoadBalancer, which may have such
ports as well, are a matter of their own: see ``block_load_balancer``.

Allowed::

    apiVersion: v1
    kind: Service
    spec: {type: ClusterIP, ports: [{port: 80}]}

Denied::

    apiVersion: v1
    kind: Service
    spec: {type: NodePort, ports: [{port: 80}]}
"""

from collections.abc import Iterator

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, validating


@validating("core/services", operations=["CREATE", "UPDATE"])
def block_node_port(review: AdmissionReview) -> Decision:
    """Deny Services of type NodePort."""
    found = introduced(review, _violations)
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview) -> Iterator[str]:
    if field(review.target, "spec.type", str) == "NodePort":
        yield "spec.type: NodePort is not allowed, use ClusterIP"
