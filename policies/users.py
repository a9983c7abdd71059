"""Restricts the users and groups that processes run as.

The settings of a container take precedence over those of its pod. If none of the four rules is set, no container may
run as root. Pods for Windows have no numeric IDs: if the rule for users is ``MustRunAsNonRoot``, they must set
``runAsNonRoot``; other rules do not apply to them.

Parameters:
    run_as_user: a mapping with ``rule``: ``MustRunAs`` (a user in the ranges), ``MustRunAsNonRoot`` (a user other than
        0, or ``runAsNonRoot: true`` without a user) or ``RunAsAny``; and with ``ranges``, each a mapping with ``min``
        and ``max``, both inclusive.
    run_as_group: a mapping with ``ranges``, and with ``rule``: ``MustRunAs`` (a group in the ranges), ``MayRunAs`` (a
        group in the ranges, or none) or ``RunAsAny``.
    supplemental_groups: the same for all ``supplementalGroups`` of the pod.
    fs_group: the same for the ``fsGroup`` of the pod.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``. If
        all images of a pod are exempt, the pod is.

Allowed, with ``run_as_user={"rule": "MustRunAs", "ranges": [{"min": 1000, "max": 1999}]}``::

    spec:
      containers: [{name: web, image: web}, {name: log, image: log, securityContext: {runAsUser: 1500}}]
      securityContext: {runAsUser: 1000}

Denied::

    spec:
      containers: [{name: web, image: web}, {name: log, image: log, securityContext: {runAsUser: 0}}]
      securityContext: {runAsUser: 1000}
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from webhooks import WORKLOADS, AdmissionReview, Container, Decision, deny_new, field, items, validating


class Range(TypedDict):
    """A range of IDs, inclusive."""

    min: int
    max: int


class UserRule(TypedDict):
    """The users that processes may run as."""

    rule: Literal["MustRunAs", "MustRunAsNonRoot", "RunAsAny"]
    ranges: NotRequired[Sequence[Range]]


class GroupRule(TypedDict):
    """The groups that processes may run as."""

    rule: Literal["MustRunAs", "MayRunAs", "RunAsAny"]
    ranges: NotRequired[Sequence[Range]]


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def users(
    review: AdmissionReview,
    *,
    run_as_user: UserRule | None = None,
    run_as_group: GroupRule | None = None,
    supplemental_groups: GroupRule | None = None,
    fs_group: GroupRule | None = None,
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny processes that would run as other users or groups."""
    parameters = {
        "runAsUser": run_as_user,
        "runAsGroup": run_as_group,
        "supplementalGroups": supplemental_groups,
        "fsGroup": fs_group,
    }
    rules: dict[str, Any] = {name: rule for name, rule in parameters.items() if rule} or {
        "runAsUser": {"rule": "MustRunAsNonRoot"}
    }
    rules = {name: rule for name, rule in rules.items() if rule["rule"] != "RunAsAny"}
    return deny_new(review, _violations, rules, exempt_images)


def _violations(review: AdmissionReview, rules: Mapping[str, Any], exempt_images: Sequence[str]) -> Iterator[str]:
    containers = review.containers(except_images=exempt_images)
    if not containers:
        return
    pod: Any = review.pod()
    if field(pod, "spec.os.name", str) == "windows":
        rules = {name: rule for name, rule in rules.items() if rule["rule"] == "MustRunAsNonRoot"}
    for name, rule in rules.items():
        if name == "supplementalGroups":
            yield from _pod_violations(name, list(items(pod, f"spec.securityContext.{name}", int)), rule)
        elif name == "fsGroup":
            group = field(pod, f"spec.securityContext.{name}", int)
            yield from _pod_violations(name, [] if group is None else [group], rule)
        else:
            for container in containers:
                yield from _container_violations(name, container, pod, rule)


def _pod_violations(name: str, ids: Sequence[int], rule: Mapping[str, Any]) -> Iterator[str]:
    if not ids and rule["rule"] == "MustRunAs":
        yield f"securityContext.{name} must be in {_format_ranges(rule)}, not absent"
    for id_ in ids:
        if not _is_in_ranges(id_, rule):
            yield f"securityContext.{name} must be in {_format_ranges(rule)}, not {id_}"


def _container_violations(name: str, container: Container, pod: Any, rule: Mapping[str, Any]) -> Iterator[str]:
    id_ = _effective(container, pod, name, int)
    shown = "absent" if id_ is None else id_
    if rule["rule"] == "MustRunAsNonRoot":
        if id_ == 0 or (id_ is None and not _effective(container, pod, "runAsNonRoot", bool)):
            expected = "must have runAsNonRoot: true or a runAsUser other than 0"
            yield f"{container}: securityContext {expected}, not {shown}"
    elif (rule["rule"] == "MustRunAs") if id_ is None else not _is_in_ranges(id_, rule):
        yield f"{container}: securityContext.{name} must be in {_format_ranges(rule)}, not {shown}"


def _effective(container: Container, pod: Any, name: str, kind: type[Any]) -> Any:
    """Return the setting of a container, or else of its pod."""
    value = field(container.spec, f"securityContext.{name}", kind)
    return field(pod, f"spec.securityContext.{name}", kind) if value is None else value


def _is_in_ranges(id_: int, rule: Mapping[str, Any]) -> bool:
    return any(range_["min"] <= id_ <= range_["max"] for range_ in rule.get("ranges", ()))


def _format_ranges(rule: Mapping[str, Any]) -> str:
    return " or ".join(f"{range_['min']}-{range_['max']}" for range_ in rule.get("ranges", ())) or "an allowed range"
