"""Containers have no terminal and no standard input to be taken over by.

Ephemeral containers count too, which ``kubectl debug -it`` gives both.

Parameters:
    exempt_images: images whose containers may; with a trailing ``*`` all that begin so, in a registry that is always
        named whole.

Allowed, with ``exempt_images=["registry.example.com/debug:1"]``::

    spec: {containers: [{name: web, image: web, tty: false}]}

Denied::

    spec: {containers: [{name: web, image: web, tty: true, stdin: true}]}
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
def disallow_interactive(review: AdmissionReview, *, exempt_images: Sequence[str] = ()) -> Decision:
    """Deny objects with a container, of whichever kind, that has ``stdin`` or ``tty``."""
    found = introduced(review, lambda each: _violations(each, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, exempt_images: Sequence[str]) -> Iterator[str]:
    for container in review.containers():
        for name in ("stdin", "tty"):
            if field(container.spec, name, bool) and not container.is_of(exempt_images):
                yield f"{container}: {name} must be false"
