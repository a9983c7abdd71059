"""Containers run under a seccomp profile that is let in, by default the container runtime's own.

What a container says counts before what its pod says, and where neither says anything it runs unconfined on many
clusters: that is denied too. The annotations from before there were fields do not count: API servers since 1.27 pass
them over, and older ones write into the fields what they say. Pods for Windows have no profiles and are let pass.

Parameters:
    allowed_profiles: ``RuntimeDefault``, ``Unconfined`` and ``Localhost``, or as annotations have them:
        ``runtime/default``, ``docker/default``, ``unconfined``, ``localhost/web.json``, and ``localhost/*`` for all
        files; ``*`` for everything.
    allowed_localhost_files: the files that ``Localhost`` lets in; ``*`` for all. None unless given.
    exempt_images: images whose containers may run under any: references, or beginnings of them with a final ``*``.

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

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, validating

NAMES = {"runtime/default": "RuntimeDefault", "docker/default": "RuntimeDefault", "unconfined": "Unconfined"}


@validating(
    "pods",
    "pods/ephemeralcontainers",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def seccomp(
    review: AdmissionReview,
    *,
    allowed_profiles: Sequence[str] = ("RuntimeDefault",),
    allowed_localhost_files: Sequence[str] = (),
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny objects with a container under another profile, or under none."""
    if "*" in allowed_profiles:
        return Allow()
    allowed = {NAMES.get(profile, profile) for profile in allowed_profiles if profile != "Localhost"}
    if "Localhost" in allowed_profiles:
        allowed |= {f"localhost/{file}" for file in allowed_localhost_files}
    found = introduced(review, lambda each: _violations(each, allowed, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, allowed: Collection[str], exempt_images: Sequence[str]) -> Iterator[str]:
    pod = review.pod()
    if field(pod, "spec.os.name", str) == "windows":
        return
    of_pod = _profile(field(pod, "spec", dict))
    for container in review.containers():
        profile = _profile(container.spec) or of_pod
        if profile in allowed or (profile.startswith("localhost/") and "localhost/*" in allowed):
            continue
        if not container.is_of(exempt_images):
            right = " or ".join(sorted(allowed)) or "left to exempt images"
            said = profile or "absent"
            yield f"container {container.name}: securityContext.seccompProfile must be {right}, not {said}"


def _profile(bearer: Any) -> str:
    if field(bearer, "securityContext.seccompProfile", dict) is None:
        return ""
    type_ = field(bearer, "securityContext.seccompProfile.type", str)
    if type_ != "Localhost":
        return type_ or "one without a type"
    return f"localhost/{field(bearer, 'securityContext.seccompProfile.localhostProfile', str) or ''}"
