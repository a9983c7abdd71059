"""Processes keep the SELinux label that the container runtime gives them, or one of those that are let in.

Pods and containers are looked at each by itself: what a container leaves out, it has from its pod.

Parameters:
    allowed_selinux_options: each a mapping with ``level``, ``role``, ``type``, ``user`` or some of them. What a pod or
        a container says must be in one of these as it says it. None unless given.
    exempt_images: images whose containers may have any label: references, or beginnings of them with a final ``*``.
        There is no such exception for what a pod says.

Allowed, with ``allowed_selinux_options=[{"type": "container_t", "level": "s0:c1,c2"}]``::

    spec: {containers: [{name: web, image: web}], securityContext: {seLinuxOptions: {level: "s0:c1,c2"}}}

Denied::

    spec: {containers: [{name: web, image: web, securityContext: {seLinuxOptions: {type: spc_t}}}]}
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, validating

PARTS = ("level", "role", "type", "user")


class Options(TypedDict, total=False):
    """The parts of a label."""

    level: str
    role: str
    type: str
    user: str


@validating(
    "pods",
    "pods/ephemeralcontainers",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def selinux(
    review: AdmissionReview, *, allowed_selinux_options: Sequence[Options] = (), exempt_images: Sequence[str] = ()
) -> Decision:
    """Deny objects with a process that would have another label."""
    found = introduced(review, lambda each: _violations(each, allowed_selinux_options, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, allowed: Sequence[Options], exempt_images: Sequence[str]) -> Iterator[str]:
    yield from _wrong("pod", field(review.pod(), "spec", dict), allowed)
    for container in review.containers():
        if not container.is_of(exempt_images):
            yield from _wrong(f"container {container.name}", container.spec, allowed)


def _wrong(where: str, bearer: Any, allowed: Sequence[Options]) -> Iterator[str]:
    said = {part: field(bearer, f"securityContext.seLinuxOptions.{part}", str) for part in PARTS}
    said = {part: value for part, value in said.items() if value}
    if said and not any(said.items() <= each.items() for each in allowed):
        told = _told(said)
        right = f"one of {'; '.join(_told(each) for each in allowed)}" if allowed else "absent"
        yield f"{where}: securityContext.seLinuxOptions must be {right}, not {told}"


def _told(options: Any) -> str:
    return ", ".join(f"{part} {options[part]}" for part in PARTS if part in options)
