"""Pods keep out of their node's files, but for the directories that are let in.

Paths compare part by part: ``/var/log`` holds ``/var/log/web`` and not ``/var/logs``, and a path with ``..`` is in
none. Where a symbolic link on the node leads cannot be told from here.

Parameters:
    allowed_host_paths: each a mapping with ``pathPrefix``, and with ``readOnly: true`` where every container must mount
        it so. None unless given.

Allowed, with ``allowed_host_paths=[{"pathPrefix": "/var/log", "readOnly": True}]``::

    spec:
      containers: [{name: web, image: web, volumeMounts: [{name: logs, mountPath: /logs, readOnly: true}]}]
      volumes: [{name: logs, hostPath: {path: /var/log/web}}]

Denied::

    spec:
      containers: [{name: web, image: web, volumeMounts: [{name: logs, mountPath: /logs}]}]
      volumes: [{name: logs, hostPath: {path: /var/log/web}}]
"""

import re
from collections.abc import Iterator, Sequence
from typing import NotRequired, TypedDict

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, items, validating


class HostPath(TypedDict):
    """A directory of the node, and whether it is for reading alone."""

    pathPrefix: str
    readOnly: NotRequired[bool]


@validating(
    "pods",
    "pods/ephemeralcontainers",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def host_filesystem(review: AdmissionReview, *, allowed_host_paths: Sequence[HostPath] = ()) -> Decision:
    """Deny pods with a volume of the node's files that is not let in."""
    found = introduced(review, lambda each: _violations(each, allowed_host_paths))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, allowed: Sequence[HostPath]) -> Iterator[str]:
    right = ", ".join(each["pathPrefix"] for each in allowed)
    for volume in items(review.pod(), "spec.volumes", dict):
        if field(volume, "hostPath", dict) is None:
            continue
        name, path = field(volume, "name", str) or "", field(volume, "hostPath.path", str) or ""
        fitting = [each for each in allowed if _is_within(path, each["pathPrefix"])]
        if not fitting:
            told = f"in {right}" if allowed else "another kind of volume"
            yield f"volume {name}: hostPath {path} must be {told}"
        elif all(each.get("readOnly") for each in fitting):
            for container in _writing(review, name):
                yield f"container {container}: volumeMounts of {name} (hostPath {path}) must be readOnly: true"


def _is_within(path: str, prefix: str) -> bool:
    if not prefix or ".." in re.split(r"[/\\]", path):
        return False
    parts, first = _parts(path), _parts(prefix)
    return parts[: len(first)] == first


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _writing(review: AdmissionReview, volume: str) -> Iterator[str]:
    for container in review.containers():
        mounts = [mount for mount in items(container.spec, "volumeMounts", dict) if field(mount, "name", str) == volume]
        if not all(field(mount, "readOnly", bool) for mount in mounts):
            yield container.name
