"""Containers run under an AppArmor profile that is let in, by default the container runtime's own.

A container has the profile that it says, or that its pod says, and else the runtime's own, ``runtime/default``. Where
an annotation of the pod names another than the container's field does, both must be let in, as some API servers read
the one and some the other. Pods for Windows have no profiles and are let pass.

Parameters:
    allowed_profiles: ``runtime/default``, ``unconfined``, ``localhost/web`` for a profile of the node, and
        ``localhost/*`` for all of those.
    exempt_images: images whose containers may run under any: references, or beginnings of them with a final ``*``.

Allowed, with ``allowed_profiles=["runtime/default", "localhost/web"]``::

    spec:
      containers:
        - {name: web, image: web, securityContext: {appArmorProfile: {type: Localhost, localhostProfile: web}}}
        - {name: log, image: log}

Denied::

    spec: {containers: [{name: web, image: web}], securityContext: {appArmorProfile: {type: Unconfined}}}
"""

from collections.abc import Iterator, Sequence
from typing import Any

from webhooks import AdmissionReview, Allow, Container, Decision, Deny, field, introduced, validating

ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
NAMES = {"RuntimeDefault": "runtime/default", "Unconfined": "unconfined"}


@validating(
    "pods",
    "pods/ephemeralcontainers",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def app_armor(
    review: AdmissionReview,
    *,
    allowed_profiles: Sequence[str] = ("runtime/default",),
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny objects with a container under another profile."""
    found = introduced(review, lambda each: _violations(each, allowed_profiles, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, allowed: Sequence[str], exempt_images: Sequence[str]) -> Iterator[str]:
    pod = review.pod()
    if field(pod, "spec.os.name", str) == "windows":
        return
    for container in review.containers():
        for profile in _profiles(container, pod):
            if profile in allowed or (profile.startswith("localhost/") and "localhost/*" in allowed):
                continue
            if not container.is_of(exempt_images):
                right = " or ".join(allowed) or "left to exempt images"
                yield f"container {container.name}: securityContext.appArmorProfile must be {right}, not {profile}"


def _profiles(container: Container, pod: Any) -> list[str]:
    annotations = field(pod, "metadata.annotations", dict) or {}
    own = [_profile(container.spec), annotations.get(ANNOTATION + container.name)]
    return [each for each in own if each] or [_profile(field(pod, "spec", dict)) or "runtime/default"]


def _profile(bearer: Any) -> str:
    if field(bearer, "securityContext.appArmorProfile", dict) is None:
        return ""
    type_ = field(bearer, "securityContext.appArmorProfile.type", str) or ""
    if type_ != "Localhost":
        return NAMES.get(type_, type_) or "one without a type"
    return f"localhost/{field(bearer, 'securityContext.appArmorProfile.localhostProfile', str) or ''}"
