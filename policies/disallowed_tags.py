"""Requires images to have a tag, and denies tags that are moved to new images, such as ``latest``.

An image with a digest never changes, so it may have any tag or none. The images of all containers and of volumes are
checked. Invalid image references are denied.

Parameters:
    tags: the tags to deny.
    exempt_images: images to exempt: references, or prefixes of one registry such as ``registry.example.com/base/*``.

Allowed, with ``tags=["latest", "dev"]``::

    spec: {containers: [{name: web, image: "registry.example.com/web:1.2"}]}

Denied::

    spec: {containers: [{name: web, image: registry.example.com/web}, {name: side, image: "proxy:dev"}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import WORKLOADS, AdmissionReview, Decision, Image, deny_new, validating


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def disallowed_tags(
    review: AdmissionReview, *, tags: Sequence[str] = ("latest",), exempt_images: Sequence[str] = ()
) -> Decision:
    """Deny images of containers and volumes without a tag, or with one of the tags."""
    return deny_new(review, _violations, tags, exempt_images)


def _violations(review: AdmissionReview, tags: Sequence[str], exempt_images: Sequence[str]) -> Iterator[str]:
    for image in review.images(except_images=exempt_images):
        problem = _problem(image, tags)
        if problem:
            yield f"{image}: {problem}"


def _problem(image: Image, tags: Sequence[str]) -> str:
    try:
        reference = image.reference
    except ValueError:
        return f"{image.image!r} is not a valid image reference"
    if reference.digest:
        return ""
    if reference.tag == "latest" and not image.image.endswith(":latest"):
        return f"image {image.image} must have a tag"
    return f"image {image.image} must have another tag" if reference.tag in tags else ""
