"""Denies volumes with files of the node (``hostPath``), except in certain directories.

Paths are compared component by component: ``/var/log`` matches ``/var/log/web`` but not ``/var/logs``. A path with
``..`` is never allowed. Symbolic links on the node are not resolved.

Parameters:
    allowed_host_paths: the allowed directories, each as a mapping with ``pathPrefix``, and with ``readOnly: true`` if
        all containers must mount it read-only.

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

from webhooks import WORKLOADS, AdmissionReview, Container, Decision, deny_new, field, items, validating


class HostPath(TypedDict):
    """An allowed directory of the node."""

    pathPrefix: str
    readOnly: NotRequired[bool]


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def host_filesystem(review: AdmissionReview, *, allowed_host_paths: Sequence[HostPath] = ()) -> Decision:
    """Deny pods that mount other directories of the node, or mount them writable."""
    return deny_new(review, _violations, allowed_host_paths)


def _violations(review: AdmissionReview, allowed: Sequence[HostPath]) -> Iterator[str]:
    for volume in items(review.pod(), "spec.volumes", dict):
        if field(volume, "hostPath", dict) is None:
            continue
        name, path = field(volume, "name", str) or "", field(volume, "hostPath.path", str) or ""
        matching = [host_path for host_path in allowed if _is_in(path, host_path["pathPrefix"])]
        if not matching:
            prefixes = " or ".join(host_path["pathPrefix"] for host_path in allowed)
            expected = f"must be in {prefixes}" if allowed else "must be another type of volume"
            yield f"volume {name}: hostPath {path} {expected}"
        elif all(host_path.get("readOnly") for host_path in matching):
            for container in _writers(review, name):
                yield f"{container}: volumeMounts of {name} (hostPath {path}) must be readOnly: true"


def _is_in(path: str, prefix: str) -> bool:
    if not prefix or ".." in re.split(r"[/\\]", path):
        return False
    components, first = _components(path), _components(prefix)
    return components[: len(first)] == first


def _components(path: str) -> list[str]:
    return [component for component in path.split("/") if component not in ("", ".")]


def _writers(review: AdmissionReview, volume: str) -> Iterator[Container]:
    """Find the containers that do not mount the volume read-only."""
    for container in review.containers():
        mounts = [mount for mount in items(container.spec, "volumeMounts", dict) if field(mount, "name", str) == volume]
        if not all(field(mount, "readOnly", bool) for mount in mounts):
            yield container
