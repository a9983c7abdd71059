"""Pods get a container more beside their own: a proxy, a log shipper, an agent.

A pod is meant if its annotation says ``"true"``, and not if that says anything else. Where a pod has no such
annotation, it is meant if it has all the labels and is in one of the namespaces, as far as these are given; with
neither given, it is not. A container or a volume of the same name is taken for the one to be added, and is left as it
is. Pods get it when they are made, whoever makes them; those that a node runs by itself (mirror pods) cannot have it.

Parameters:
    container: the container, as a pod has it; without one nothing is added.
    volumes: what it mounts, as a pod has them.
    native: as an init container that goes on running (``restartPolicy: Always``): it starts before all others, and
        does not keep a job from ending.
    annotation: the key of the annotation; empty for none, so that authors of pods do not decide.
    labels: the labels of pods that are meant.
    namespaces: the namespaces, as names or shell patterns, of pods that are meant.

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

Left as it is, with ``container={"name": "proxy", "image": "proxy:1"}, namespaces=["team-*"]``::

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
    """Add the container, and the volumes, to pods that are meant and have them not yet."""
    if not container or not _is_meant(review, annotation, labels, namespaces):
        return Allow()
    spec = field(review.object, "spec", dict)
    if spec is None:
        return Deny("spec is missing: this is no pod", reason="Invalid", code=422)
    if all(each.name != container["name"] for each in review.containers()):
        if native:
            spec["initContainers"] = [{**container, "restartPolicy": "Always"}, *items(spec, "initContainers", dict)]
        else:
            spec["containers"] = [*items(spec, "containers", dict), container]
    mounted = list(items(spec, "volumes", dict))
    names = {volume.get("name") for volume in mounted}
    missing = [volume for volume in volumes if volume["name"] not in names]
    if missing:
        spec["volumes"] = [*mounted, *missing]
    return Replace(review.object)


def _is_meant(review: AdmissionReview, annotation: str, labels: Mapping[str, str], namespaces: Sequence[str]) -> bool:
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
