"""Containers have probes, so that traffic goes to those that are ready and those that hang are restarted.

The ordinary containers are asked: init containers have probes as sidecars alone, ephemeral ones never. Whether a
Service selects the pod is not checked, for that is no matter of the pod alone: there is no ``only_services``.

Parameters:
    probes: which of ``livenessProbe``, ``readinessProbe``, ``startupProbe`` must be there.
    probe_types: what a probe must do, one of these: ``exec``, ``grpc``, ``httpGet``, ``tcpSocket``; none for whatever.
    custom_violation_message: shown after the usual one.

Allowed, with ``probes=["readinessProbe"], probe_types=["httpGet", "tcpSocket"]``::

    spec: {containers: [{name: web, image: web, readinessProbe: {httpGet: {path: /ready, port: 8080}}}]}

Denied::

    spec: {containers: [{name: web, image: web, readinessProbe: {exec: {command: ["true"]}}}]}
"""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, validating

Probe: TypeAlias = Literal["livenessProbe", "readinessProbe", "startupProbe"]
ProbeType: TypeAlias = Literal["exec", "grpc", "httpGet", "tcpSocket"]


@validating("pods", "replicationcontrollers", "podtemplates", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def required_probes(
    review: AdmissionReview,
    *,
    probes: Sequence[Probe] = ("readinessProbe", "livenessProbe"),
    probe_types: Sequence[ProbeType] = ("exec", "grpc", "httpGet", "tcpSocket"),
    custom_violation_message: str = "",
) -> Decision:
    """Deny objects with a container that lacks one of the probes."""
    found = introduced(review, lambda each: _violations(each, probes, probe_types))
    if not found:
        return Allow()
    return Deny(" ".join(filter(None, ["; ".join(found), custom_violation_message])))


def _violations(review: AdmissionReview, probes: Sequence[str], probe_types: Sequence[str]) -> Iterator[str]:
    wanted = f" by {' or '.join(probe_types)}" if probe_types else ""
    for container in review.containers():
        if container.kind != "containers":
            continue
        for probe in probes:
            has = field(container.spec, probe, dict)
            if not has or (probe_types and not any(field(has, each, dict) is not None for each in probe_types)):
                yield f"{container} has no {probe}{wanted}"
