"""Sets the pull policy of images, by default so that an image is pulled each time a container starts.

Otherwise a node runs an image that it already has for every pod, even if the pod has no right to pull it, or if the tag
was moved to a newer image. The policy is set for the images of all containers and of volumes, and replaces other
values: the API server sets a default before webhooks are called, so the author's choice is not known. Pods are changed
when they are created, and ephemeral containers when they are added.

Parameters:
    policy: ``Always``, ``IfNotPresent`` or ``Never``.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Changed::

    spec: {containers: [{name: web, image: web, imagePullPolicy: IfNotPresent}]}
    ---
    spec: {containers: [{name: web, image: web, imagePullPolicy: Always}]}

Unchanged, with ``exempt_images=["registry.example.com/base/*"]``::

    spec: {containers: [{name: web, image: registry.example.com/base/web, imagePullPolicy: IfNotPresent}]}
"""

from collections.abc import Sequence
from typing import Literal

from webhooks import AdmissionReview, Allow, Mutation, Patch, mutating

_FIELDS = {"volumes": "image/pullPolicy"}


@mutating("pods", "pods/ephemeralcontainers", operations=["CREATE", "UPDATE"])
def image_pull_policy(
    review: AdmissionReview,
    *,
    policy: Literal["Always", "IfNotPresent", "Never"] = "Always",
    exempt_images: Sequence[str] = (),
) -> Mutation:
    """Set the pull policy of all images that the request adds; existing ones of a pod are immutable."""
    previous = review.previous
    existing = {(image.kind, image.name) for image in previous.images()} if previous else set()
    operations = [
        {"op": "add", "path": f"{image.pointer}/{_FIELDS.get(image.kind, 'imagePullPolicy')}", "value": policy}
        for image in review.images(except_images=exempt_images)
        if (image.kind, image.name) not in existing
    ]
    return Patch(operations) if operations else Allow()
