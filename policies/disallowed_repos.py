"""Pods use no images from places that are closed to them.

A place is a registry, or a path in it, compared part by part: ``docker.io/team`` does not close ``docker.io/teamster``.
A name by itself, such as ``nginx``, closes the official image at ``docker.io`` and whatever that account publishes
there. Every container counts, and every volume that is filled from an image. An image that cannot be read is refused,
for nobody can tell where it is from.

Parameters:
    repos: registries such as ``registry.example.com``, and paths in them such as ``docker.io/library``.

Allowed, with ``repos=["k8s.gcr.io"]``::

    spec: {containers: [{name: web, image: registry.k8s.io/pause:3.10}]}

Denied::

    spec: {containers: [{name: web, image: k8s.gcr.io/pause:3.2}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import AdmissionReview, Allow, Decision, Deny, ImageReference, introduced, validating


@validating(
    "pods",
    "pods/ephemeralcontainers",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def disallowed_repos(review: AdmissionReview, *, repos: Sequence[str] = ("k8s.gcr.io",)) -> Decision:
    """Deny objects with an image, of a container of whichever kind or of a volume, from one of the places."""
    found = introduced(review, lambda each: _violations(each, repos))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, repos: Sequence[str]) -> Iterator[str]:
    for image in review.images():
        try:
            reference = image.reference
        except ValueError:
            yield f"{image}: {image.image!r} is no image"
            continue
        closed = [repo for repo in repos if _is_from(reference, repo)]
        if closed:
            yield f"{image}: {image.image} is from {closed[0]}, which is not allowed"


def _is_from(reference: ImageReference, repo: str) -> bool:
    name = repo.removeprefix("index.").removeprefix("docker.io/")
    official = reference.registry == "docker.io" and reference.repository == f"library/{name}"
    return reference.within(repo) or official
