"""Adds a container to pods, such as a proxy, a log shipper or an agent.

A pod gets the container if its annotation is ``"true"``, and does not get it if the annotation has another value. A pod
without the annotation gets it if it has all ``labels`` and is in one of the ``namespaces``; if neither is set, it does
not. Existing containers and volumes of the same name are kept. Pods are changed when they are created. Mirror pods,
which kubelets create for static pods, cannot be changed.

Parameters:
    container: the container, as in a pod. Without it nothing is changed.
    volumes: the volumes that the container mounts, as in a pod.
    native: whether to add a native sidecar: an init container with ``restartPolicy: Always``, which starts before all
        other containers and does not prevent a Job from completing.
    annotation: the key of the annotation; empty if authors of pods must not decide.
    labels: the labels of the pods to change.
    namespaces: the namespaces of the pods to change, as shell patterns.

Changed, with ``container={"name": "proxy", "image": "proxy:1"}, namespaces=["team-*"]``::

    metadata: {namespace: team-a}
    spec: {containers: [{name: web, image: web}]}
    ---
    metadata: {namespace: team-a}
    spec: {containers: [{name: web, image: web}, {name: proxy, image: "proxy:1"}]}

Changed, with ``container={"name": "proxy", "image": "proxy:1"}, native=True``::

    metadata: {annotations: {webhooks.svc.io/inject-sidecar: "true"}}
    ---
    metadata: {annotations: {webhooks.svc.io/inject-sidecar: "true"}}
    spec: {initContainers: [{name: proxy, image: "proxy:1", restartPolicy: Always}]}

Unchanged, with ``container={"name": "proxy", "image": "proxy:1"}, namespaces=["team-*"]``::

    metadata: {namespace: team-a, annotations: {webhooks.svc.io/inject-sidecar: "false"}}
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from webhooks import AdmissionReview, Allow, Deny, Mutation, Replace, field, items, mutating

_MIRROR = "kubernetes.io/config.mirror"


@mutating("pods", operations=["CREATE"])
def inject_sidecar(
    review: AdmissionReview,
    *,
    container: Mapping[str, Any] = MappingProxyType({}),
    volumes: Sequence[Mapping[str, Any]] = (),
    native: bool = False,
    annotation: str = "webhooks.svc.io/inject-sidecar",
    labels: Mapping[str, str] = MappingProxyType({}),
    namespaces: Sequence[str] = (),
) -> Mutation:
    """Add the container and its volumes to the selected pods."""
    if not container or not _is_selected(review, annotation, labels, namespaces):
        return Allow()
    spec = field(review.object, "spec", dict)
    if spec is None:
        return Deny("spec is missing: a pod must have one", reason="Invalid", code=422)
    if all(existing.name != container["name"] for existing in review.containers()):
        if native:
            spec["initContainers"] = [{**container, "restartPolicy": "Always"}, *items(spec, "initContainers", dict)]
        else:
            spec["containers"] = [*items(spec, "containers", dict), container]
    existing_volumes = list(items(spec, "volumes", dict))
    names = {volume.get("name") for volume in existing_volumes}
    missing = [volume for volume in volumes if volume["name"] not in names]
    if missing:
        spec["volumes"] = [*existing_volumes, *missing]
    return Replace(review.object)


def _is_selected(
    review: AdmissionReview, annotation: str, labels: Mapping[str, str], namespaces: Sequence[str]
) -> bool:
    annotations = review.annotations
    if _MIRROR in annotations:
        return False
    if annotation and annotation in annotations:
        return annotations[annotation] == "true"
    if not labels and not namespaces:
        return False
    if namespaces and not any(fnmatchcase(review.namespace, pattern) for pattern in namespaces):
        return False
    return labels.items() <= review.labels.items()
