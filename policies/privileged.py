"""Containers run without the powers of their node: none is privileged.

A privileged container sees the node's devices and may do there whatever root may.

Parameters:
    exempt_images: images whose containers may be privileged: references, or beginnings of them with a final ``*``. The
        registry of a beginning is always whole: ``registry.example.com*`` holds nothing of
        ``registry.example.com.evil.org``.

Allowed, with ``exempt_images=["registry.example.com/cni/*"]``::

    spec:
      containers: [{name: web, image: web}]
      initContainers: [{name: cni, image: registry.example.com/cni/install:1, securityContext: {privileged: true}}]

Denied::

    spec: {containers: [{name: web, image: web, securityContext: {privileged: true}}]}
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
def privileged(review: AdmissionReview, *, exempt_images: Sequence[str] = ()) -> Decision:
    """Deny objects with a privileged container."""
    found = introduced(review, lambda each: _violations(each, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers():
        if field(container.spec, "securityContext.privileged", bool) and not container.is_of(exempt_images):
            yield f"container {container.name}: securityContext.privileged must not be true"
