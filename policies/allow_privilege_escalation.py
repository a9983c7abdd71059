"""Requires ``allowPrivilegeEscalation: false``: processes must not gain more rights than their parent process.

Kubernetes allows privilege escalation by default, for example by set-user-ID files, so every container must set the
field. Pods for Windows cannot set it and are exempt.

Parameters:
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``exempt_images=["registry.example.com/sudo:1"]``::

    spec:
      containers:
        - {name: web, image: web, securityContext: {allowPrivilegeEscalation: false}}
        - {name: sudo, image: registry.example.com/sudo:1}

Denied::

    spec: {containers: [{name: web, image: web}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, validating


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def allow_privilege_escalation(review: AdmissionReview, *, exempt_images: Sequence[str] = ()) -> Decision:
    """Deny containers that allow privilege escalation."""
    return deny_new(review, _violations, exempt_images)


def _violations(review: AdmissionReview, exempt_images: Sequence[str]) -> Iterator[str]:
    if field(review.pod(), "spec.os.name", str) == "windows":
        return
    for container in review.containers(except_images=exempt_images):
        if field(container.spec, "securityContext.allowPrivilegeEscalation", bool) is not False:
            yield f"{container}: securityContext.allowPrivilegeEscalation must be false"
