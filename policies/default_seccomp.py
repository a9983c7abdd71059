"""Pods run under a seccomp profile, if need be the container runtime's own.

A pod that says nothing runs unconfined on many clusters. What a pod says for itself stays, as do pods for Windows,
which knows no such profiles.

Parameters:
    profile: the profile's type, ``RuntimeDefault`` or ``Unconfined``.

Changed::

    spec: {containers: [{name: web, image: web}]}

Left as it is::

    spec: {securityContext: {seccompProfile: {type: Localhost, localhostProfile: web.json}}, containers: [...]}
"""

from typing import Literal

from webhooks import AdmissionReview, Allow, Mutation, Replace, mutating


@mutating("pods", operations=["CREATE"])
def default_seccomp(
    review: AdmissionReview, *, profile: Literal["RuntimeDefault", "Unconfined"] = "RuntimeDefault"
) -> Mutation:
    """Give pods without a seccomp profile one."""
    pod = review.object
    if (pod["spec"].get("os") or {}).get("name") == "windows":
        return Allow()
    context = pod["spec"].get("securityContext") or {}
    if context.get("seccompProfile"):
        return Allow()
    pod["spec"]["securityContext"] = {**context, "seccompProfile": {"type": profile}}
    return Replace(pod)
