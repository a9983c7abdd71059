"""Allows only certain seccomp profiles, by default only the profile of the container runtime.

The profile of a container is set in the container, else in the pod. Without a profile, many clusters run the container
unconfined, so that is denied too. Annotations, which fields have replaced, do not count: API servers since 1.27 ignore
them, and older ones copy them to the fields. Pods for Windows have no profiles and are exempt.

Parameters:
    allowed_profiles: ``RuntimeDefault``, ``Unconfined`` and ``Localhost``, or as in annotations: ``runtime/default``,
        ``docker/default``, ``unconfined``, ``localhost/web.json``, or ``localhost/*`` for all files; ``*`` for all
        profiles.
    allowed_localhost_files: the files that ``Localhost`` allows; ``*`` for all.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``allowed_profiles=["RuntimeDefault", "Localhost"], allowed_localhost_files=["web.json"]``::

    spec:
      containers:
        - {name: web, image: web}
        - {name: log, image: log, securityContext: {seccompProfile: {type: Localhost, localhostProfile: web.json}}}
      securityContext: {seccompProfile: {type: RuntimeDefault}}

Denied::

    spec:
      containers: [{name: web, image: web, securityContext: {seccompProfile: {type: Unconfined}}}]
      securityContext: {seccompProfile: {type: RuntimeDefault}}
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from webhooks import WORKLOADS, AdmissionReview, Allow, Decision, deny_new, field, validating

NAMES = {"runtime/default": "RuntimeDefault", "docker/default": "RuntimeDefault", "unconfined": "Unconfined"}


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def seccomp(
    review: AdmissionReview,
    *,
    allowed_profiles: Sequence[str] = ("RuntimeDefault",),
    allowed_localhost_files: Sequence[str] = (),
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny containers with another profile, or without one."""
    if "*" in allowed_profiles:
        return Allow()
    allowed = {NAMES.get(profile, profile) for profile in allowed_profiles if profile != "Localhost"}
    if "Localhost" in allowed_profiles:
        allowed |= {f"localhost/{file}" for file in allowed_localhost_files}
    return deny_new(review, _violations, allowed, exempt_images)


def _violations(review: AdmissionReview, allowed: Collection[str], exempt_images: Sequence[str]) -> Iterator[str]:
    pod = review.pod()
    if field(pod, "spec.os.name", str) == "windows":
        return
    pod_profile = _profile(field(pod, "spec", dict))
    expected = " or ".join(sorted(allowed)) or "an allowed profile"
    for container in review.containers(except_images=exempt_images):
        profile = _profile(container.spec) or pod_profile
        if profile not in allowed and not (profile.startswith("localhost/") and "localhost/*" in allowed):
            yield f"{container}: securityContext.seccompProfile must be {expected}, not {profile or 'absent'}"


def _profile(spec: Any) -> str:
    """Return the profile in the security context of a pod or container; of a file, as annotations write it."""
    if field(spec, "securityContext.seccompProfile", dict) is None:
        return ""
    type_ = field(spec, "securityContext.seccompProfile.type", str)
    if type_ != "Localhost":
        return type_ or "without a type"
    return f"localhost/{field(spec, 'securityContext.seccompProfile.localhostProfile', str) or ''}"
