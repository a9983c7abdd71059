"""Requires images to come from certain registries or repositories, in image reviews (ImageReview) of API servers.

The API server asks about all containers of a pod, including init and ephemeral containers, and again if an image is
changed. References are parsed as container runtimes do, and compared component by component: ``registry.example.com``
does not match ``registry.example.com.evil.org``. The annotations of an ImageReview are set by the author of the pod, so
they do not count.

Parameters:
    registries: registries such as ``registry.example.com``, or paths in a registry such as ``docker.io/library``.

Allowed, with ``registries=["registry.example.com"]``::

    spec: {containers: [{image: "registry.example.com/web:1.2"}]}

Denied::

    spec: {containers: [{image: "registry.example.com/web:1.2"}, {image: nginx}]}
"""

from collections.abc import Sequence

from webhooks import Allow, Decision, Deny, ImageReference, ImageReview, image_policy


@image_policy
def trusted_registries(review: ImageReview, *, registries: Sequence[str] = ("registry.k8s.io",)) -> Decision:
    """Deny images that come from other registries."""
    untrusted = [image for image in review.images if not _is_from(image, registries)]
    if not untrusted:
        return Allow()
    return Deny(f"images must come from {' or '.join(registries) or 'a trusted registry'}: {', '.join(untrusted)}")


def _is_from(image: str, registries: Sequence[str]) -> bool:
    try:
        reference = ImageReference.parse(image)
    except ValueError:
        return False
    return any(reference.within(registry) for registry in registries)
