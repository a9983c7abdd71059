"""Pods stay off their node's network, and containers off its ports, but for those that are let in.

On the node's network a pod reaches what listens to the node alone, and takes ports from everybody else. The API server
gives the containers of such a pod a ``hostPort`` for every port that they name, so those must be let in too.

Parameters:
    host_network: whether pods may use the node's network. Images make no exception to it.
    min: the first port of the node that containers may use.
    max: the last one. Where but one of the two is given, the other is the first or the last there is; where neither is,
        no port may be used.
    exempt_images: images whose containers may use any port: references, or beginnings of them with a final ``*``.

Allowed, with ``min=8000, max=8080``::

    spec: {containers: [{name: web, image: web, ports: [{containerPort: 80, hostPort: 8080}, {containerPort: 81}]}]}

Denied::

    spec: {hostNetwork: true, containers: [{name: web, image: web, ports: [{containerPort: 80, hostPort: 80}]}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, items, validating

LAST_PORT = 65535


@validating(
    "pods",
    "pods/ephemeralcontainers",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def host_network_ports(
    review: AdmissionReview,
    *,
    host_network: bool = False,
    min: int | None = None,  # noqa: A002  # the name that people have in their constraints
    max: int | None = None,  # noqa: A002
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny pods on the node's network, and containers on its ports."""
    ports = range(0)
    if min is not None or max is not None:
        ports = range(min or 0, (LAST_PORT if max is None else max) + 1)
    found = introduced(review, lambda each: _violations(each, host_network, ports, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(
    review: AdmissionReview, host_network: bool, ports: range, exempt_images: Sequence[str]
) -> Iterator[str]:
    if not host_network and field(review.pod(), "spec.hostNetwork", bool):
        yield "hostNetwork must not be true"
    right = f"from {ports.start} to {ports.stop - 1}" if ports else "left out"
    for container in review.containers():
        used = [field(port, "hostPort", int) for port in items(container.spec, "ports", dict)]
        wrong = [str(port) for port in used if port and port not in ports]
        if wrong and not container.is_of(exempt_images):
            yield f"container {container.name}: hostPort {', '.join(wrong)} must be {right}"
