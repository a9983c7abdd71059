"""Denies the network of the node to pods, and its ports to containers, except for a range of ports.

A pod in the network of the node can reach services that listen only on the node. API servers set a ``hostPort`` for
every port of such a pod, so these ports must be in the range too.

Parameters:
    host_network: whether pods may use the network of the node. ``exempt_images`` does not apply to it.
    min: the first allowed host port; the default is 0 if ``max`` is set.
    max: the last allowed host port; the default is 65535 if ``min`` is set. Without both, no host port is allowed.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``min=8000, max=8080``::

    spec: {containers: [{name: web, image: web, ports: [{containerPort: 80, hostPort: 8080}, {containerPort: 81}]}]}

Denied::

    spec: {hostNetwork: true, containers: [{name: web, image: web, ports: [{containerPort: 80, hostPort: 80}]}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, items, validating

LAST_PORT = 65535


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def host_network_ports(
    review: AdmissionReview,
    *,
    host_network: bool = False,
    min: int | None = None,  # noqa: A002  # as in Gatekeeper
    max: int | None = None,  # noqa: A002
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny pods in the network of the node, and containers with other host ports."""
    ports = range(0)
    if min is not None or max is not None:
        ports = range(min or 0, (LAST_PORT if max is None else max) + 1)
    return deny_new(review, _violations, host_network, ports, exempt_images)


def _violations(
    review: AdmissionReview, host_network: bool, ports: range, exempt_images: Sequence[str]
) -> Iterator[str]:
    if not host_network and field(review.pod(), "spec.hostNetwork", bool):
        yield "hostNetwork must not be true"
    expected = f"must be in {ports.start}-{ports.stop - 1}" if ports else "must be absent"
    for container in review.containers(except_images=exempt_images):
        for port in items(container.spec, "ports", dict):
            host_port = field(port, "hostPort", int)
            if host_port and host_port not in ports:
                yield f"{container}: ports.hostPort {expected}, not {host_port}"
