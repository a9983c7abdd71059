"""Limits the Linux capabilities that containers add, and requires them to drop others.

Names are compared without regard to case, as container runtimes do. A capability that a container drops by ``ALL`` and
adds by its name is not dropped. Pods for Windows need not drop any.

Parameters:
    allowed_capabilities: capabilities that containers may add, such as ``NET_BIND_SERVICE``; ``*`` for all.
    required_drop_capabilities: capabilities that each container must drop, by their names or by ``ALL``.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``allowed_capabilities=["NET_BIND_SERVICE"], required_drop_capabilities=["ALL"]``::

    spec:
      containers:
        - {name: web, image: web, securityContext: {capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}}

Denied::

    spec: {containers: [{name: web, image: web, securityContext: {capabilities: {add: [NET_ADMIN]}}}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import WORKLOADS, AdmissionReview, Container, Decision, deny_new, field, items, validating


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def capabilities(
    review: AdmissionReview,
    *,
    allowed_capabilities: Sequence[str] = (),
    required_drop_capabilities: Sequence[str] = (),
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny containers that add other capabilities, or do not drop the required ones."""
    allowed = [name.upper() for name in allowed_capabilities]
    required = [name.upper() for name in required_drop_capabilities]
    return deny_new(review, _violations, allowed, required, exempt_images)


def _violations(
    review: AdmissionReview, allowed: Sequence[str], required: Sequence[str], exempt_images: Sequence[str]
) -> Iterator[str]:
    if field(review.pod(), "spec.os.name", str) == "windows":
        required = ()
    expected = f"must have only {', '.join(allowed)}" if allowed else "must be empty"
    for container in review.containers(except_images=exempt_images):
        added, dropped = _names(container, "add"), _names(container, "drop")
        for name in added:
            if name not in allowed and "*" not in allowed:
                yield f"{container}: securityContext.capabilities.add {expected}, not {name}"
        for name in required:
            if name not in dropped and ("ALL" not in dropped or name in added):
                yield f"{container}: securityContext.capabilities.drop must have {name}"


def _names(container: Container, list_: str) -> list[str]:
    return [name.upper() for name in items(container.spec, f"securityContext.capabilities.{list_}", str)]
