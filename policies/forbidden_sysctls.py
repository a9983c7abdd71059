"""Pods leave alone the kernel parameters that are forbidden, or all but those that are allowed.

A kernel parameter of one pod may take from others what they need, or undo what keeps them apart. Names compare with
dots between their parts, also where a pod writes them with slashes, as it may.

Parameters:
    forbidden_sysctls: names, or beginnings of them with a final ``*``. They stay forbidden whatever else is allowed.
    allowed_sysctls: likewise; where given, all others are forbidden. If neither is given, all are.

Allowed, with ``forbidden_sysctls=["kernel.*"], allowed_sysctls=["net.ipv4.tcp_*", "kernel.shm_rmid_forced"]``::

    spec:
      containers: [{name: web, image: web}]
      securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: "1"}]}

Denied::

    spec:
      containers: [{name: web, image: web}]
      securityContext: {sysctls: [{name: kernel.msgmax, value: "65536"}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, items, validating


@validating("pods", "replicationcontrollers", "podtemplates", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def forbidden_sysctls(
    review: AdmissionReview,
    *,
    forbidden_sysctls: Sequence[str] = (),
    allowed_sysctls: Sequence[str] | None = None,
) -> Decision:
    """Deny pods that set a kernel parameter they must not."""
    if allowed_sysctls is None:
        allowed_sysctls = ("*",) if forbidden_sysctls else ()
    allowed = allowed_sysctls
    found = introduced(review, lambda each: _violations(each, forbidden_sysctls, allowed))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, forbidden: Sequence[str], allowed: Sequence[str]) -> Iterator[str]:
    for sysctl in items(review.pod(), "spec.securityContext.sysctls", dict):
        name = field(sysctl, "name", str) or ""
        dotted = _dotted(name)
        if _is_among(dotted, forbidden):
            yield f"sysctl {name} is forbidden"
        elif not _is_among(dotted, allowed):
            yield f"sysctl {name} is not among the allowed ({', '.join(allowed) or 'none'})"


def _is_among(name: str, patterns: Sequence[str]) -> bool:
    dotted = map(_dotted, patterns)
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in dotted)


def _dotted(name: str) -> str:
    """With the slashes and dots of a name that uses slashes exchanged, as the kernel's own tool does."""
    slash, dot = name.find("/"), name.find(".")
    if slash < 0 or 0 <= dot < slash:
        return name
    return name.translate(str.maketrans("/.", "./"))
