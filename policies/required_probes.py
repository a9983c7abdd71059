"""Requires probes, so that only ready containers receive traffic, and containers that hang are restarted.

Only regular containers are checked: init containers have probes only as sidecars, and ephemeral containers never. The
parameter ``only_services`` of Gatekeeper does not exist, because a policy cannot see which Services select a pod.

Parameters:
    probes: the required probes, some of ``livenessProbe``, ``readinessProbe``, ``startupProbe``.
    probe_types: the allowed actions of a probe, some of ``exec``, ``grpc``, ``httpGet``, ``tcpSocket``; empty for all.
    custom_violation_message: a text to append to the message of a denial.

Allowed, with ``probes=["readinessProbe"], probe_types=["httpGet", "tcpSocket"]``::

    spec: {containers: [{name: web, image: web, readinessProbe: {httpGet: {path: /ready, port: 8080}}}]}

Denied::

    spec: {containers: [{name: web, image: web, readinessProbe: {exec: {command: ["true"]}}}]}
"""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from webhooks import WORKLOADS, AdmissionReview, Allow, Decision, Deny, field, introduced, validating

Probe: TypeAlias = Literal["livenessProbe", "readinessProbe", "startupProbe"]
ProbeType: TypeAlias = Literal["exec", "grpc", "httpGet", "tcpSocket"]


@validating("pods", *WORKLOADS, operations=["CREATE", "UPDATE"])
def required_probes(
    review: AdmissionReview,
    *,
    probes: Sequence[Probe] = ("readinessProbe", "livenessProbe"),
    probe_types: Sequence[ProbeType] = ("exec", "grpc", "httpGet", "tcpSocket"),
    custom_violation_message: str = "",
) -> Decision:
    """Deny containers without one of the probes, or with another action in it."""
    violations = introduced(review, _violations, probes, probe_types)
    if not violations:
        return Allow()
    return Deny(f"{'; '.join(violations)} {custom_violation_message}".rstrip())


def _violations(review: AdmissionReview, probes: Sequence[str], probe_types: Sequence[str]) -> Iterator[str]:
    expected = f" with {' or '.join(probe_types)}" if probe_types else ""
    for container in review.containers():
        if container.kind != "containers":
            continue
        for name in probes:
            probe = field(container.spec, name, dict)
            if not probe or (probe_types and not any(field(probe, type_, dict) is not None for type_ in probe_types)):
                yield f"{container} must have a {name}{expected}"
