"""Images are named by their digest, so that what was tested is what runs.

Every container counts, and every volume that is filled from an image. A digest is one of sha256, sha384 or sha512, of
the right length: what only looks like one is refused.

Parameters:
    exempt_images: images that need none; with a trailing ``*`` all that begin so, in a registry that is always named
        whole.

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

from webhooks import AdmissionReview, Allow, Decision, Deny, Image, introduced, validating


@validating(
    "pods",
    "pods/ephemeralcontainers",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def image_digests(review: AdmissionReview, *, exempt_images: Sequence[str] = ()) -> Decision:
    """Deny objects with an image, of a container of whichever kind or of a volume, that has no digest."""
    found = introduced(review, lambda each: _violations(each, exempt_images))
    return Deny(f"images without a digest, such as app@sha256:...: {', '.join(found)}") if found else Allow()


def _violations(review: AdmissionReview, exempt_images: Sequence[str]) -> Iterator[str]:
    for image in review.images():
        if not _has_digest(image) and not image.is_of(exempt_images):
            yield f"{image} ({image.image})"


def _has_digest(image: Image) -> bool:
    try:
        return image.reference.digest is not None
    except ValueError:
        return False
