"""Denies privileged containers, which can access the devices of the node and have all rights of root there.

Parameters:
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``exempt_images=["registry.example.com/cni/*"]``::

    spec:
      containers: [{name: web, image: web}]
      initContainers: [{name: cni, image: registry.example.com/cni/install:1, securityContext: {privileged: true}}]

Denied::

    spec: {containers: [{name: web, image: web, securityContext: {privileged: true}}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, validating


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def privileged(review: AdmissionReview, *, exempt_images: Sequence[str] = ()) -> Decision:
    """Deny privileged containers."""
    return deny_new(review, _violations, exempt_images)


def _violations(review: AdmissionReview, exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers(except_images=exempt_images):
        if field(container.spec, "securityContext.privileged", bool):
            yield f"{container}: securityContext.privileged must not be true"
