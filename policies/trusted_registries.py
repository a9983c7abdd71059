"""Pods run images from trusted registries alone, where API servers ask about images (ImageReview).

The API server asks about every container of a pod: init and ephemeral ones too, and again when an image is changed.
References are read as container tools read them and compared part by part: ``registry.example.com`` does not let in
``registry.example.com.evil.org``. The annotations that an ImageReview brings are the pod author's own word, and do not
count.

Parameters:
    registries: registries such as ``registry.example.com``, and paths in them such as ``docker.io/library``.

Allowed, with ``registries=["registry.example.com"]``::

    spec: {containers: [{image: "registry.example.com/web:1.2"}]}

Denied::

    spec: {containers: [{image: "registry.example.com/web:1.2"}, {image: nginx}]}
"""

from collections.abc import Sequence

from webhooks import Allow, Decision, Deny, ImageReference, ImageReview, image_policy


@image_policy
def trusted_registries(review: ImageReview, *, registries: Sequence[str] = ("registry.k8s.io",)) -> Decision:
    """Deny pods with an image from elsewhere."""
    strange = [image for image in review.images if not _is_from(image, registries)]
    if not strange:
        return Allow()
    return Deny(f"images from outside {', '.join(registries)}: {', '.join(strange)}")


def _is_from(image: str, registries: Sequence[str]) -> bool:
    try:
        reference = ImageReference.parse(image)
    except ValueError:
        return False
    return any(reference.within(registry) for registry in registries)
