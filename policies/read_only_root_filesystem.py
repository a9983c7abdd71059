"""Containers do not write to their own image: what they keep goes to volumes.

Whoever breaks into a container finds nowhere to put a tool. Pods for Windows cannot have it and are let pass.

Parameters:
    exempt_images: images whose containers may write: references, or beginnings of them with a final ``*``.

Allowed, with ``exempt_images=["docker.io/library/postgres:*"]``::

    spec:
      containers:
        - {name: web, image: web, securityContext: {readOnlyRootFilesystem: true}}
        - {name: db, image: "postgres:17"}

Denied::

    spec: {containers: [{name: web, image: web}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, validating


@validating(
    "pods",
    "pods/ephemeralcontainers",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def read_only_root_filesystem(review: AdmissionReview, *, exempt_images: Sequence[str] = ()) -> Decision:
    """Deny objects with a container whose root filesystem can be written to."""
    found = introduced(review, lambda each: _violations(each, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, exempt_images: Sequence[str]) -> Iterator[str]:
    if field(review.pod(), "spec.os.name", str) == "windows":
        return
    for container in review.containers():
        if field(container.spec, "securityContext.readOnlyRootFilesystem", bool) or container.is_of(exempt_images):
            continue
        yield f"container {container.name}: securityContext.readOnlyRootFilesystem must be true"
