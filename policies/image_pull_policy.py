"""Images are pulled as the cluster wants it, by default each time a container starts.

A node that has an image gives it to every pod there, one that has no right to pull it included, and goes on with an old
image after its tag has moved; ``Always`` asks the registry. It holds for every container, and for volumes that are
filled from an image, whatever they say themselves: the API server fills in a policy before anybody else sees a pod, so
that nobody can tell what its author wrote. Pods get it when they are made, whoever makes them, and ephemeral containers
when they are put into one.

Parameters:
    policy: ``Always``, ``IfNotPresent`` or ``Never``.
    exempt_images: images that are left as they are, such as ``registry.example.com/base/web:1.2``, or with a final
        ``*`` the beginning of them: ``registry.example.com/base/*``.

Changed::

    spec: {containers: [{name: web, image: web, imagePullPolicy: IfNotPresent}]}
    ---
    spec: {containers: [{name: web, image: web, imagePullPolicy: Always}]}

Left as it is, with ``exempt_images=["registry.example.com/base/*"]``::

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
    """Set the pull policy of every image that the request brings; those of a pod that runs may not change."""
    before = review.previous
    known = {(each.kind, each.name) for each in before.images()} if before else set()
    operations = [
        {"op": "add", "path": f"{image.pointer}/{_FIELDS.get(image.kind, 'imagePullPolicy')}", "value": policy}
        for image in review.images()
        if (image.kind, image.name) not in known and not image.is_of(exempt_images)
    ]
    return Patch(operations) if operations else Allow()
