"""Sets the seccomp profile of pods that have none, by default to the profile of the container runtime.

Many clusters run pods without a profile unconfined. Profiles of the pod and of its containers are kept. Pods for
Windows, which have no seccomp profiles, are not changed. Pods are changed when they are created, not their workloads,
because a changed template restarts all pods. If `seccomp` or `pod_security_standards` also checks workloads, their
templates must set a profile.

Parameters:
    profile: the type of the profile, ``RuntimeDefault`` or ``Unconfined``.

Changed::

    spec: {containers: [{name: web, image: web}]}
    ---
    spec: {containers: [{name: web, image: web}], securityContext: {seccompProfile: {type: RuntimeDefault}}}

Unchanged::

    spec:
      containers: [{name: web, image: web}]
      securityContext: {seccompProfile: {type: Localhost, localhostProfile: web.json}}
"""

from typing import Literal

from webhooks import AdmissionReview, Allow, Deny, Mutation, Replace, field, mutating


@mutating("pods", operations=["CREATE"])
def default_seccomp(
    review: AdmissionReview, *, profile: Literal["RuntimeDefault", "Unconfined"] = "RuntimeDefault"
) -> Mutation:
    """Set the seccomp profile if there is none."""
    pod = review.object
    spec = field(pod, "spec", dict)
    if spec is None:
        return Deny("spec is missing: a pod must have one", reason="Invalid", code=422)
    context = field(spec, "securityContext", dict) or {}
    if field(context, "seccompProfile", dict) or field(spec, "os.name", str) == "windows":
        return Allow()
    spec["securityContext"] = {**context, "seccompProfile": {"type": profile}}
    return Replace(pod)
