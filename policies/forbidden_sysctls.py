"""Denies certain sysctls (kernel parameters), or all except certain ones.

A sysctl of one pod can take resources from other pods, or weaken their isolation. Pods may separate the parts of a name
by dots or slashes; names are compared with dots.

Parameters:
    forbidden_sysctls: names, or prefixes with a final ``*``. They are denied even if ``allowed_sysctls`` matches.
    allowed_sysctls: names, or prefixes with a final ``*``. All others are denied. If only ``forbidden_sysctls`` is set,
        the default is ``["*"]``, else nothing.

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

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, items, validating


@validating("pods", *WORKLOADS, operations=["CREATE", "UPDATE"])
def forbidden_sysctls(
    review: AdmissionReview,
    *,
    forbidden_sysctls: Sequence[str] = (),
    allowed_sysctls: Sequence[str] | None = None,
) -> Decision:
    """Deny pods that set other sysctls."""
    if allowed_sysctls is None:
        allowed_sysctls = ("*",) if forbidden_sysctls else ()
    return deny_new(review, _violations, forbidden_sysctls, allowed_sysctls)


def _violations(review: AdmissionReview, forbidden: Sequence[str], allowed: Sequence[str]) -> Iterator[str]:
    for sysctl in items(review.pod(), "spec.securityContext.sysctls", dict):
        name = field(sysctl, "name", str) or ""
        dotted = _with_dots(name)
        if _matches(dotted, forbidden):
            yield f"securityContext.sysctls must not have {name}"
        elif not _matches(dotted, allowed):
            expected = f"must have only {', '.join(allowed)}" if allowed else "must be empty"
            yield f"securityContext.sysctls {expected}, not {name}"


def _matches(name: str, patterns: Sequence[str]) -> bool:
    dotted = map(_with_dots, patterns)
    return any(name.startswith(text[:-1]) if text.endswith("*") else name == text for text in dotted)


def _with_dots(name: str) -> str:
    """If the first separator of a name is a slash, swap its slashes and dots, as sysctl(8) does."""
    slash, dot = name.find("/"), name.find(".")
    if slash < 0 or 0 <= dot < slash:
        return name
    return name.translate(str.maketrans("/.", "./"))
