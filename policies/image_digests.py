"""Requires images to have a digest, so that the image that runs is the image that was tested.

The images of all containers and of volumes are checked. A digest is sha256, sha384 or sha512, of the correct length.

Parameters:
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``exempt_images=["registry.k8s.io/*"]``::

    spec:
      initContainers:
        - name: wait
          image: "registry.k8s.io/pause:3.10"
      containers:
        - name: web
          image: nginx@sha256:0f04e4f646a3f14bf31d8bc8d885b6c951fdcf42589d06845f64d18aec6a3c4d

Denied::

    spec: {containers: [{name: web, image: "nginx:1.27"}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import WORKLOADS, AdmissionReview, Decision, Image, deny_new, validating


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def image_digests(review: AdmissionReview, *, exempt_images: Sequence[str] = ()) -> Decision:
    """Deny images of containers and volumes without a digest."""
    return deny_new(review, _violations, exempt_images)


def _violations(review: AdmissionReview, exempt_images: Sequence[str]) -> Iterator[str]:
    for image in review.images(except_images=exempt_images):
        if not _has_digest(image):
            yield f"{image}: image {image.image} must have a digest, such as app@sha256:..."


def _has_digest(image: Image) -> bool:
    try:
        return image.reference.digest is not None
    except ValueError:
        return False
