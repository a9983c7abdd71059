"""Images have a tag, and not one that means another image tomorrow, such as ``latest``.

An image with a digest is always the same, so whatever tag stands before that is allowed, or none. Every container
counts, and every volume that is filled from an image. An image that cannot be read is refused.

Parameters:
    tags: the tags that are not allowed. Having no tag never is.
    exempt_images: images that may; with a trailing ``*`` all that begin so, in a registry that is always named whole.

Allowed, with ``tags=["latest", "dev"]``::

    spec: {containers: [{name: web, image: "registry.example.com/web:1.2"}]}

Denied::

    spec: {containers: [{name: web, image: registry.example.com/web}, {name: side, image: "proxy:dev"}]}
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
def disallowed_tags(
    review: AdmissionReview, *, tags: Sequence[str] = ("latest",), exempt_images: Sequence[str] = ()
) -> Decision:
    """Deny objects with an image, of whichever container or volume, without a tag or with one of these."""
    found = introduced(review, lambda each: _violations(each, tags, exempt_images))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, tags: Sequence[str], exempt_images: Sequence[str]) -> Iterator[str]:
    for image in review.images():
        problem = _problem(image, tags)
        if problem and not image.is_of(exempt_images):
            yield f"{image}: {problem}"


def _problem(image: Image, tags: Sequence[str]) -> str:
    try:
        reference = image.reference
    except ValueError:
        return f"{image.image!r} is no image"
    if reference.digest:
        return ""
    if reference.tag == "latest" and not image.image.endswith(":latest"):
        return f"{image.image} has no tag"
    return f"the tag of {image.image} is not allowed" if reference.tag in tags else ""
