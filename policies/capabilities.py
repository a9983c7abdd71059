"""Containers have no more of root's powers than they may, and drop those that they must.

Names compare without regard to case, as container runtimes do it. What a container drops together with ``ALL`` and then
adds by itself is not dropped. Pods for Windows have none to drop.

Parameters:
    allowed_capabilities: those that containers may add, such as ``NET_BIND_SERVICE``; ``*`` for all. None unless given.
    required_drop_capabilities: those that each container must drop, by themselves or with ``ALL``.
    exempt_images: images whose containers may have any: references, or beginnings of them with a final ``*``.

Allowed, with ``allowed_capabilities=["NET_BIND_SERVICE"], required_drop_capabilities=["ALL"]``::

    spec:
      containers:
        - {name: web, image: web, securityContext: {capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}}

Denied::

    spec: {containers: [{name: web, image: web, securityContext: {capabilities: {add: [NET_ADMIN]}}}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import AdmissionReview, Allow, Container, Decision, Deny, field, introduced, items, validating


@validating(
    "pods",
    "pods/ephemeralcontainers",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def capabilities(
    review: AdmissionReview,
    *,
    allowed_capabilities: Sequence[str] = (),
    required_drop_capabilities: Sequence[str] = (),
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny objects with a container that adds or keeps what it must not have."""
    allowed = [name.upper() for name in allowed_capabilities]
    required = [name.upper() for name in required_drop_capabilities]
    found = introduced(review, lambda each: _violations(each, allowed, required, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(
    review: AdmissionReview, allowed: Sequence[str], required: Sequence[str], exempt_images: Sequence[str]
) -> Iterator[str]:
    windows = field(review.pod(), "spec.os.name", str) == "windows"
    for container in review.containers():
        if container.is_of(exempt_images):
            continue
        added, dropped = _names(container, "add"), _names(container, "drop")
        where = f"container {container.name}: securityContext.capabilities"
        if "*" not in allowed:
            right = f"only {', '.join(allowed)}" if allowed else "nothing"
            yield from (f"{where}.add must have {right}, not {name}" for name in added if name not in allowed)
        for name in required:
            if not (windows or name in dropped or ("ALL" in dropped and name not in added)):
                yield f"{where}.drop must have {name}"


def _names(container: Container, list_: str) -> list[str]:
    return [name.upper() for name in items(container.spec, f"securityContext.capabilities.{list_}", str)]
