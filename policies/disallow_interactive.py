"""Denies containers with ``stdin`` or ``tty``, which give an attacker an interactive session.

Ephemeral containers are checked too; ``kubectl debug -it`` sets both fields in them.

Parameters:
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``exempt_images=["registry.example.com/debug:1"]``::

    spec: {containers: [{name: web, image: web, tty: false}]}

Denied::

    spec: {containers: [{name: web, image: web, tty: true, stdin: true}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, validating


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def disallow_interactive(review: AdmissionReview, *, exempt_images: Sequence[str] = ()) -> Decision:
    """Deny containers of all kinds with ``stdin`` or ``tty``."""
    return deny_new(review, _violations, exempt_images)


def _violations(review: AdmissionReview, exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers(except_images=exempt_images):
        for name in ("stdin", "tty"):
            if field(container.spec, name, bool):
                yield f"{container}: {name} must be false"
