"""Requires ``automountServiceAccountToken: false``: few programs use the API, and a mounted token can be stolen.

If a pod does not set the field, its service account decides. The pod is then denied if the API server added the mount
of the token to its containers. Pod templates do not have this mount yet: if they do not set the field they are allowed,
and their pods are checked. A pod that needs a token can mount a ``projected`` volume at another path.

Allowed::

    spec: {automountServiceAccountToken: false, containers: [{name: web, image: web}]}

Denied::

    spec: {automountServiceAccountToken: true, containers: [{name: web, image: web}]}
"""

from collections.abc import Iterator
from posixpath import normpath

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, items, validating

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def automount_service_account_token(review: AdmissionReview) -> Decision:
    """Deny pods that mount the token of their service account."""
    return deny_new(review, _violations)


def _violations(review: AdmissionReview) -> Iterator[str]:
    pod = review.pod()
    automount = field(pod, "spec.automountServiceAccountToken", bool)
    if automount:
        yield "automountServiceAccountToken must be false"
    if automount is not None:
        return
    for container in review.containers():
        for mount in items(container.spec, "volumeMounts", dict):
            if normpath(field(mount, "mountPath", str) or "") == MOUNT_PATH:
                yield f"{container} mounts the service account token: automountServiceAccountToken must be false"
