"""Pods use images from known places alone.

A place is a registry, or a path in it, compared part by part: ``registry.example.com`` does not let in
``registry.example.com.evil.org``, nor ``registry.example.com/team`` the repository ``registry.example.com/teamster``.
Every container counts, and every volume that is filled from an image.

Parameters:
    repos: registries such as ``registry.example.com``, and paths in them such as ``docker.io/library``.

Allowed, with ``repos=["registry.example.com"]``::

    spec: {containers: [{name: web, image: registry.example.com/web:1.2}]}

Denied::

    spec: {containers: [{name: web, image: nginx}]}
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
def allowed_repos(review: AdmissionReview, *, repos: Sequence[str] = ("registry.k8s.io",)) -> Decision:
    """Deny objects with an image, of a container of whichever kind or of a volume, that comes from elsewhere."""
    strange = introduced(review, lambda each: _strange(each, repos))
    if not strange:
        return Allow()
    return Deny(f"images from outside {', '.join(repos)}: {', '.join(strange)}")


def _strange(review: AdmissionReview, repos: Sequence[str]) -> Iterator[str]:
    return (f"{image} ({image.image})" for image in review.images() if not _is_from(image, repos))


def _is_from(image: Image, repos: Sequence[str]) -> bool:
    try:
        reference = image.reference
    except ValueError:
        return False
    return any(reference.within(repo) for repo in repos)
