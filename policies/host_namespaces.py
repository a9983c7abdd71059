"""Denies pods that share the process or IPC namespace of the node.

``hostPID`` shows all processes of the node with their environment, and ``hostIPC`` their shared memory. See
`host_network_ports` for the network of the node.

Allowed::

    spec: {shareProcessNamespace: true, containers: [{name: web, image: web}]}

Denied::

    spec: {hostPID: true, containers: [{name: web, image: web}]}
"""

from collections.abc import Iterator

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, validating


@validating("pods", *WORKLOADS, operations=["CREATE", "UPDATE"])
def host_namespaces(review: AdmissionReview) -> Decision:
    """Deny pods with ``hostPID`` or ``hostIPC``."""
    return deny_new(review, _violations)


def _violations(review: AdmissionReview) -> Iterator[str]:
    pod = review.pod()
    for name in ("hostPID", "hostIPC"):
        if field(pod, f"spec.{name}", bool):
            yield f"{name} must not be true"
