"""Allows only certain AppArmor profiles, by default only the profile of the container runtime.

The profile of a container is set in the container, else in the pod, else it is ``runtime/default``. If an annotation of
the pod sets another profile than the field of the container, both must be allowed, because API servers differ in which
of them they use. Pods for Windows have no profiles and are exempt.

Parameters:
    allowed_profiles: ``runtime/default``, ``unconfined``, ``localhost/NAME`` for a profile on the node, or
        ``localhost/*`` for all of them.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

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

from webhooks import WORKLOADS, AdmissionReview, Container, Decision, deny_new, field, validating

ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
NAMES = {"RuntimeDefault": "runtime/default", "Unconfined": "unconfined"}


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def app_armor(
    review: AdmissionReview,
    *,
    allowed_profiles: Sequence[str] = ("runtime/default",),
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny containers with another profile."""
    return deny_new(review, _violations, allowed_profiles, exempt_images)


def _violations(review: AdmissionReview, allowed: Sequence[str], exempt_images: Sequence[str]) -> Iterator[str]:
    pod = review.pod()
    if field(pod, "spec.os.name", str) == "windows":
        return
    expected = " or ".join(allowed) or "an allowed profile"
    for container in review.containers(except_images=exempt_images):
        for profile in _profiles(container, pod):
            if profile not in allowed and not (profile.startswith("localhost/") and "localhost/*" in allowed):
                yield f"{container}: securityContext.appArmorProfile must be {expected}, not {profile}"


def _profiles(container: Container, pod: Any) -> list[str]:
    annotations = field(pod, "metadata.annotations", dict) or {}
    profiles = [_profile(container.spec), annotations.get(ANNOTATION + container.name)]
    return [profile for profile in profiles if profile] or [_profile(field(pod, "spec", dict)) or "runtime/default"]


def _profile(spec: Any) -> str:
    """Return the profile in the security context of a pod or container, as annotations write it."""
    if field(spec, "securityContext.appArmorProfile", dict) is None:
        return ""
    type_ = field(spec, "securityContext.appArmorProfile.type", str) or ""
    if type_ != "Localhost":
        return NAMES.get(type_, type_) or "without a type"
    return f"localhost/{field(spec, 'securityContext.appArmorProfile.localhostProfile', str) or ''}"
