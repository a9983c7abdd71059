"""Pods see their own processes and speak to them alone: none shares the node's.

``hostPID`` shows every process of the node, their environment included, and ``hostIPC`` their shared memory. The node's
network is what `host_network_ports` is about.

Allowed::

    spec: {shareProcessNamespace: true, containers: [{name: web, image: web}]}

Denied::

    spec: {hostPID: true, containers: [{name: web, image: web}]}
"""

from collections.abc import Iterator

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, validating


@validating("pods", "replicationcontrollers", "podtemplates", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def host_namespaces(review: AdmissionReview) -> Decision:
    """Deny pods that share the node's processes or its interprocess communication."""
    found = introduced(review, _violations)
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview) -> Iterator[str]:
    pod = review.pod()
    for name in ("hostPID", "hostIPC"):
        if field(pod, f"spec.{name}", bool):
            yield f"{name} must not be true"
