"""Images come by way of another registry: a mirror, a cache, the one inside the house.

References are read as container tools read them, and compared part by part: ``nginx`` is of ``docker.io/library``, and
``docker.io.example.com`` is not of ``docker.io``. The longest place that holds an image counts, and tag and digest
stay. What lies in one of the new places already is left, so that rules do not follow one another, and doing it twice is
doing it once. An update keeps the images that it does not touch: a label is no reason to start pods anew. Workloads
that belong to others (a Deployment's ReplicaSets, a CronJob's Jobs) are left to be as these want them; their pods are
not. An image that cannot be read is denied.

Parameters:
    registries: by a registry or a path in one, the place that what lies in it is taken from instead.

Changed, with ``registries={"docker.io": "mirror.example.com/hub", "quay.io/team": "mirror.example.com/team"}``::

    spec: {containers: [{name: web, image: nginx}], initContainers: [{name: init, image: "quay.io/team/init:1.2"}]}
    ---
    spec:
      containers: [{name: web, image: "mirror.example.com/hub/library/nginx:latest"}]
      initContainers: [{name: init, image: "mirror.example.com/team/init:1.2"}]

Left as it is::

    kind: Deployment
    spec: {template: {spec: {containers: [{name: web, image: quay.io/other/web}]}}}
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from webhooks import AdmissionReview, Allow, Deny, ImageReference, Mutation, Patch, items, mutating

_FIELDS = {"volumes": "image/reference"}


@mutating(
    "pods",
    "pods/ephemeralcontainers",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def rewrite_registry(review: AdmissionReview, *, registries: Mapping[str, str] = MappingProxyType({})) -> Mutation:
    """Rewrite the images, of containers of every kind and of volumes, that the request brings."""
    before = review.previous if registries else None
    known = {(each.kind, each.name, each.image) for each in before.images()} if before else set()
    operations, unreadable = [], []
    for image in review.images() if registries else ():
        if not image.image or (image.kind, image.name, image.image) in known:
            continue
        try:
            reference = image.reference
        except ValueError:
            unreadable.append(f"{image.name} ({image.image:.60})")
            continue
        path = f"{image.pointer}/{_FIELDS.get(image.kind, 'image')}"
        rewritten = _rewritten(reference, registries)
        if rewritten:
            operations.append({"op": "replace", "path": path, "value": rewritten})
    if unreadable:
        return Deny(f"images that are no image references: {', '.join(unreadable)}")
    if not operations or _belongs_to_another(review):
        return Allow()
    return Patch(operations)


def _belongs_to_another(review: AdmissionReview) -> bool:
    """Whether a template is another object's, whose controller makes it again where it differs, without end."""
    if review.resource.resource == "pods":
        return False
    return any(owner.get("controller") for owner in items(review.object, "metadata.ownerReferences", dict))


def _rewritten(reference: ImageReference, registries: Mapping[str, str]) -> str | None:
    if any(reference.within(place) for place in registries.values()):
        return None
    path = reference.repository.split("/")
    depths = {_depth(reference, path, place): target for place, target in registries.items() if reference.within(place)}
    if not depths:
        return None
    depth = max(depths)
    target = depths[depth].removesuffix("/")
    tag = "" if reference.tag is None else f":{reference.tag}"
    digest = "" if reference.digest is None else f"@{reference.digest}"
    image = "/".join([target, *path[depth:]]) + tag + digest
    if not ImageReference.parse(image).within(target):
        raise ValueError(f"{image} would not be in {target}: the registry needs a path after it")
    return image


def _depth(reference: ImageReference, path: list[str], place: str) -> int:
    """How many components of the path it takes to be in the place."""
    return next(
        depth for depth in range(len(path) + 1) if replace(reference, repository="/".join(path[:depth])).within(place)
    )
