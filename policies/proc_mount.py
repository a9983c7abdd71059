"""Containers see ``/proc`` as their runtime masks it.

``Unmasked`` shows and lets change much of what belongs to the node's kernel.

Parameters:
    proc_mount: ``Default``, or ``Unmasked`` to let containers have either.
    exempt_images: images whose containers may have either: references, or beginnings of them with a final ``*``.

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
def proc_mount(
    review: AdmissionReview,
    *,
    proc_mount: Literal["Default", "Unmasked"] = "Default",
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny objects with a container that unmasks ``/proc``."""
    allowed = (None, "Default", proc_mount)
    found = introduced(review, lambda each: _violations(each, allowed, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, allowed: Sequence[str | None], exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers():
        mount = field(container.spec, "securityContext.procMount", str)
        if mount not in allowed and not container.is_of(exempt_images):
            yield f"container {container.name}: securityContext.procMount must be Default, not {mount}"
