"""Allows only certain SELinux options, by default only those that the container runtime sets.

The options of pods and of containers are checked separately; a container inherits the options that it does not set.

Parameters:
    allowed_selinux_options: mappings with some of ``level``, ``role``, ``type`` and ``user``. All options that a pod or
        container sets must be in one of them.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.
        The options of the pod are not exempt.

Allowed, with ``allowed_selinux_options=[{"type": "container_t", "level": "s0:c1,c2"}]``::

    spec: {containers: [{name: web, image: web}], securityContext: {seLinuxOptions: {level: "s0:c1,c2"}}}

Denied::

    spec: {containers: [{name: web, image: web, securityContext: {seLinuxOptions: {type: spc_t}}}]}
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, validating

PARTS = ("level", "role", "type", "user")


class Options(TypedDict, total=False):
    """The parts of an SELinux label."""

    level: str
    role: str
    type: str
    user: str


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def selinux(
    review: AdmissionReview, *, allowed_selinux_options: Sequence[Options] = (), exempt_images: Sequence[str] = ()
) -> Decision:
    """Deny pods and containers with other SELinux options."""
    return deny_new(review, _violations, allowed_selinux_options, exempt_images)


def _violations(review: AdmissionReview, allowed: Sequence[Options], exempt_images: Sequence[str]) -> Iterator[str]:
    yield from _option_violations("pod", field(review.pod(), "spec", dict), allowed)
    for container in review.containers(except_images=exempt_images):
        yield from _option_violations(str(container), container.spec, allowed)


def _option_violations(where: str, spec: Any, allowed: Sequence[Options]) -> Iterator[str]:
    all_options = {part: field(spec, f"securityContext.seLinuxOptions.{part}", str) for part in PARTS}
    options = {part: value for part, value in all_options.items() if value}
    if options and not any(options.items() <= combination.items() for combination in allowed):
        expected = " or ".join(f"({_format(combination)})" for combination in allowed) or "absent"
        yield f"{where}: securityContext.seLinuxOptions must be {expected}, not ({_format(options)})"


def _format(options: Any) -> str:
    return ", ".join(f"{part}: {options[part]}" for part in PARTS if part in options)
