"""Processes gain no more rights than the one that started them, by set-user-ID files or otherwise.

Every container has to say so: ``allowPrivilegeEscalation`` is true where it is left out. Pods for Windows may not have
it and need none.

Parameters:
    exempt_images: images whose containers may do without: references, or beginnings of them with a final ``*``.

Allowed, with ``exempt_images=["registry.example.com/sudo:1"]``::

    spec:
      containers:
        - {name: web, image: web, securityContext: {allowPrivilegeEscalation: false}}
        - {name: sudo, image: registry.example.com/sudo:1}

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
def allow_privilege_escalation(review: AdmissionReview, *, exempt_images: Sequence[str] = ()) -> Decision:
    """Deny objects with a container that does not rule out privilege escalation."""
    found = introduced(review, lambda each: _violations(each, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, exempt_images: Sequence[str]) -> Iterator[str]:
    if field(review.pod(), "spec.os.name", str) == "windows":
        return
    for container in review.containers():
        allowed = field(container.spec, "securityContext.allowPrivilegeEscalation", bool)
        if allowed is not False and not container.is_of(exempt_images):
            yield f"container {container.name}: securityContext.allowPrivilegeEscalation must be false"
