"""Pods are not given the token of their service account, unless they ask for it in so many words.

Few programs talk to the API server, and a token that is there can be stolen. Where a pod does not say, its service
account decides: then the token is told by the mount that the API server has put into the containers. Pod templates
have no such mount yet, so those that do not say are allowed, and their pods are asked. A pod that is to have a token
mounts a ``projected`` volume at a place of its own.

Allowed::

    spec: {automountServiceAccountToken: false, containers: [{name: web, image: web}]}

Denied::

    spec: {automountServiceAccountToken: true, containers: [{name: web, image: web}]}
"""

from collections.abc import Iterator
from posixpath import normpath

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, items, validating

PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"


@validating(
    "pods",
    "pods/ephemeralcontainers",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def automount_service_account_token(review: AdmissionReview) -> Decision:
    """Deny pods that mount the token, or are given it."""
    found = introduced(review, _violations)
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview) -> Iterator[str]:
    pod = review.pod()
    wanted = field(pod, "spec.automountServiceAccountToken", bool)
    if wanted:
        yield "automountServiceAccountToken must be false"
    if wanted is not None:
        return
    for container in review.containers():
        for mount in items(container.spec, "volumeMounts", dict):
            if normpath(field(mount, "mountPath", str) or "") == PLACE:
                yield f"{container} has the service account's token, automountServiceAccountToken must be false"
