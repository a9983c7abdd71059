"""Requires ``readOnlyRootFilesystem: true``, so that an attacker cannot change the files of the image.

Containers can write to volumes. Pods for Windows cannot set the field and are exempt.

Parameters:
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``exempt_images=["docker.io/library/postgres:*"]``::

    spec:
      containers:
        - {name: web, image: web, securityContext: {readOnlyRootFilesystem: true}}
        - {name: db, image: "postgres:17"}

Denied::

    spec: {containers: [{name: web, image: web}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, validating


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def read_only_root_filesystem(review: AdmissionReview, *, exempt_images: Sequence[str] = ()) -> Decision:
    """Deny containers with a writable root filesystem."""
    return deny_new(review, _violations, exempt_images)


def _violations(review: AdmissionReview, exempt_images: Sequence[str]) -> Iterator[str]:
    if field(review.pod(), "spec.os.name", str) == "windows":
        return
    for container in review.containers(except_images=exempt_images):
        if not field(container.spec, "securityContext.readOnlyRootFilesystem", bool):
            yield f"{container}: securityContext.readOnlyRootFilesystem must be true"
