"""Pods run under a seccomp profile, if need be the container runtime's own.

A pod that says nothing runs unconfined on many clusters. What a pod says for itself stays, and what a container says
for itself counts before it; pods for Windows, which knows no such profiles, are left alone. Pods get it when they are
made, whoever makes them; a workload's template stays as its author wrote it, as to change it would start all its pods
anew. Where `seccomp` or `pod_security_standards` looks at workloads too, templates have to say it themselves.

Parameters:
    profile: the profile's type, ``RuntimeDefault`` or ``Unconfined``.

Changed::

    spec: {containers: [{name: web, image: web}]}
    ---
    spec: {containers: [{name: web, image: web}], securityContext: {seccompProfile: {type: RuntimeDefault}}}

Left as it is::

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
    """Give pods without a seccomp profile one."""
    pod = review.object
    spec = field(pod, "spec", dict)
    if spec is None:
        return Deny("spec is missing: this is no pod", reason="Invalid", code=422)
    context = field(spec, "securityContext", dict) or {}
    own = field(context, "seccompProfile", dict)
    if own or field(spec, "os.name", str) == "windows":
        return Allow()
    spec["securityContext"] = {**context, "seccompProfile": {"type": profile}}
    return Replace(pod)
