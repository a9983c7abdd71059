"""Processes run as users and in groups that they may have.

What a container says counts before what its pod says. Where none of the four parameters is given, none may run as root.
Pods for Windows have no such numbers: of them it is asked to run as somebody other than the administrator, by
``runAsNonRoot``, where the rule for users is ``MustRunAsNonRoot``.

Parameters:
    run_as_user: a mapping with ``rule``, one of ``MustRunAs`` (a user from the ranges), ``MustRunAsNonRoot`` (a user
        other than 0, or ``runAsNonRoot: true`` and no user) and ``RunAsAny``; and with ``ranges``, each a mapping with
        the first number, ``min``, and the last, ``max``.
    run_as_group: likewise, with one of the rules ``MustRunAs`` (a group from the ranges), ``MayRunAs`` (one from the
        ranges, or none) and ``RunAsAny``.
    supplemental_groups: likewise, of all the groups of ``supplementalGroups``, which a pod has as a whole.
    fs_group: likewise, of ``fsGroup``, which a pod has as a whole.
    exempt_images: images whose containers may run as anybody: references, or beginnings of them with a final ``*``. A
        pod that runs no others may have any group.

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

from webhooks import AdmissionReview, Allow, Container, Decision, Deny, field, introduced, items, validating


class Range(TypedDict):
    """The first and the last of some numbers."""

    min: int
    max: int


class UserRule(TypedDict):
    """Which users processes may run as."""

    rule: Literal["MustRunAs", "MustRunAsNonRoot", "RunAsAny"]
    ranges: NotRequired[Sequence[Range]]


class GroupRule(TypedDict):
    """Which groups processes may run in."""

    rule: Literal["MustRunAs", "MayRunAs", "RunAsAny"]
    ranges: NotRequired[Sequence[Range]]


@validating(
    "pods",
    "pods/ephemeralcontainers",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def users(
    review: AdmissionReview,
    *,
    run_as_user: UserRule | None = None,
    run_as_group: GroupRule | None = None,
    supplemental_groups: GroupRule | None = None,
    fs_group: GroupRule | None = None,
    exempt_images: Sequence[str] = (),
) -> Decision:
    """Deny objects with a process that would run as somebody else."""
    given = {
        "runAsUser": run_as_user,
        "runAsGroup": run_as_group,
        "supplementalGroups": supplemental_groups,
        "fsGroup": fs_group,
    }
    rules: dict[str, Any] = {name: rule for name, rule in given.items() if rule} or {
        "runAsUser": {"rule": "MustRunAsNonRoot"}
    }
    rules = {name: rule for name, rule in rules.items() if rule["rule"] != "RunAsAny"}
    found = introduced(review, lambda each: _violations(each, rules, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, rules: Mapping[str, Any], exempt_images: Sequence[str]) -> Iterator[str]:
    containers = [container for container in review.containers() if not container.is_of(exempt_images)]
    if not containers:
        return
    pod: Any = review.pod()
    if field(pod, "spec.os.name", str) == "windows":
        rules = {name: rule for name, rule in rules.items() if rule["rule"] == "MustRunAsNonRoot"}
    for name, rule in rules.items():
        if name == "supplementalGroups":
            yield from _wrong_of_pod(name, list(items(pod, f"spec.securityContext.{name}", int)), rule)
        elif name == "fsGroup":
            group = field(pod, f"spec.securityContext.{name}", int)
            yield from _wrong_of_pod(name, [] if group is None else [group], rule)
        else:
            for container in containers:
                yield from _wrong_of_container(name, container, pod, rule)


def _wrong_of_pod(name: str, ids: Sequence[int], rule: Mapping[str, Any]) -> Iterator[str]:
    if not ids and rule["rule"] == "MustRunAs":
        yield f"securityContext.{name} must be {_told(rule)}, not absent"
    for id_ in ids:
        if not _is_in(id_, rule):
            yield f"securityContext.{name} must be {_told(rule)}, not {id_}"


def _wrong_of_container(name: str, container: Container, pod: Any, rule: Mapping[str, Any]) -> Iterator[str]:
    id_ = _of_either(container, pod, name, int)
    where = f"container {container.name}: securityContext"
    if rule["rule"] == "MustRunAsNonRoot":
        if id_ == 0 or (id_ is None and not _of_either(container, pod, "runAsNonRoot", bool)):
            yield f"{where} must have runAsNonRoot: true or a runAsUser other than 0, {_not(id_)}"
    elif (rule["rule"] == "MustRunAs") if id_ is None else not _is_in(id_, rule):
        yield f"{where}.{name} must be {_told(rule)}, {_not(id_)}"


def _of_either(container: Container, pod: Any, name: str, kind: type[Any]) -> Any:
    own = field(container.spec, f"securityContext.{name}", kind)
    return field(pod, f"spec.securityContext.{name}", kind) if own is None else own


def _is_in(id_: int, rule: Mapping[str, Any]) -> bool:
    return any(each["min"] <= id_ <= each["max"] for each in rule.get("ranges", ()))


def _told(rule: Mapping[str, Any]) -> str:
    ranges = ", ".join(f"{each['min']}-{each['max']}" for each in rule.get("ranges", ()))
    return f"in {ranges or 'no range'}"


def _not(id_: int | None) -> str:
    return "not absent" if id_ is None else f"not {id_}"
