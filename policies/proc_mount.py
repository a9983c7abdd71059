"""Denies unmasked ``/proc`` mounts, by which containers can read and change settings of the node's kernel.

Parameters:
    proc_mount: ``Default``, or ``Unmasked`` to allow both.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``exempt_images=["registry.example.com/builder:1"]``::

    spec:
      hostUsers: false
      containers:
        - {name: web, image: web, securityContext: {procMount: Default}}
        - {name: build, image: registry.example.com/builder:1, securityContext: {procMount: Unmasked}}

Denied::

    spec: {hostUsers: false, containers: [{name: web, image: web, securityContext: {procMount: Unmasked}}]}
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, validating


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def proc_mount(
    review: AdmissionReview,
    *,
    proc_mount: Literal["Default", "Unmasked"] = "Default",
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny containers that unmask ``/proc``."""
    return deny_new(review, _violations, (None, "Default", proc_mount), exempt_images)


def _violations(review: AdmissionReview, allowed: Sequence[str | None], exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers(except_images=exempt_images):
        mount = field(container.spec, "securityContext.procMount", str)
        if mount not in allowed:
            yield f"{container}: securityContext.procMount must be Default, not {mount}"
