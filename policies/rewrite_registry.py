"""Rewrites images to another registry, such as a mirror or a cache.

References are parsed as container runtimes do, and compared component by component: ``nginx`` is in
``docker.io/library``, and ``docker.io.example.com`` is not in ``docker.io``. The longest match is used. Tags and
digests are kept. Images that are already in one of the new places are not changed, so rewriting twice has no effect.

An update does not change existing images, because that would restart all pods. Workloads with a controller (the
ReplicaSets of a Deployment, the Jobs of a CronJob) are not changed, because the controller would undo it; their pods
are changed. Invalid image references are denied.

Parameters:
    registries: a mapping of registries, or paths in registries, to their new places.

Changed, with ``registries={"docker.io": "mirror.example.com/hub", "quay.io/team": "mirror.example.com/team"}``::

    spec: {containers: [{name: web, image: nginx}], initContainers: [{name: init, image: "quay.io/team/init:1.2"}]}
    ---
    spec:
      containers: [{name: web, image: "mirror.example.com/hub/library/nginx:latest"}]
      initContainers: [{name: init, image: "mirror.example.com/team/init:1.2"}]

Unchanged::

    kind: Deployment
    spec: {template: {spec: {containers: [{name: web, image: quay.io/other/web}]}}}
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from webhooks import WORKLOADS, AdmissionReview, Allow, Deny, ImageReference, Mutation, Patch, items, mutating

_FIELDS = {"volumes": "image/reference"}


@mutating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def rewrite_registry(review: AdmissionReview, *, registries: Mapping[str, str] = MappingProxyType({})) -> Mutation:
    """Rewrite the images of containers and volumes that the request adds."""
    if not registries:
        return Allow()
    previous = review.previous
    existing = {(image.kind, image.name, image.image) for image in previous.images()} if previous else set()
    operations, invalid = [], []
    for image in review.images():
        if not image.image or (image.kind, image.name, image.image) in existing:
            continue
        try:
            reference = image.reference
        except ValueError:
            invalid.append(f"{image}: {image.image[:60]!r} is not a valid image reference")
            continue
        rewritten = _rewrite(reference, registries)
        if rewritten:
            path = f"{image.pointer}/{_FIELDS.get(image.kind, 'image')}"
            operations.append({"op": "replace", "path": path, "value": rewritten})
    if invalid:
        return Deny("; ".join(invalid))
    if not operations or _has_controller(review):
        return Allow()
    return Patch(operations)


def _has_controller(review: AdmissionReview) -> bool:
    """Check whether a workload belongs to a controller, which would undo the change and cause an endless loop."""
    if review.resource.resource == "pods":
        return False
    return any(owner.get("controller") for owner in items(review.object, "metadata.ownerReferences", dict))


def _rewrite(reference: ImageReference, registries: Mapping[str, str]) -> str | None:
    if any(reference.within(place) for place in registries.values()):
        return None
    path = reference.repository.split("/")
    matches = {
        _depth(reference, path, place): target for place, target in registries.items() if reference.within(place)
    }
    if not matches:
        return None
    depth = max(matches)
    target = matches[depth].removesuffix("/")
    tag = "" if reference.tag is None else f":{reference.tag}"
    digest = "" if reference.digest is None else f"@{reference.digest}"
    image = "/".join([target, *path[depth:]]) + tag + digest
    if not ImageReference.parse(image).within(target):
        raise ValueError(f"{image} would not be in {target}: add a path to the registry")
    return image


def _depth(reference: ImageReference, path: list[str], place: str) -> int:
    """Return the number of components of the path that belong to the place."""
    return next(
        depth for depth in range(len(path) + 1) if replace(reference, repository="/".join(path[:depth])).within(place)
    )
