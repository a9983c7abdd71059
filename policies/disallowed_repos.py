"""Denies images from certain registries or repositories.

Paths are compared component by component: ``docker.io/team`` does not match ``docker.io/teamster``. A single name such
as ``nginx`` matches the official image on ``docker.io``, and the repositories of the account with that name. The images
of all containers and of volumes are checked. Invalid image references are denied.

Parameters:
    repos: registries such as ``registry.example.com``, or paths in a registry such as ``docker.io/library``.

Allowed, with ``repos=["k8s.gcr.io"]``::

    spec: {containers: [{name: web, image: registry.k8s.io/pause:3.10}]}

Denied::

    spec: {containers: [{name: web, image: k8s.gcr.io/pause:3.2}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import WORKLOADS, AdmissionReview, Decision, ImageReference, deny_new, validating


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def disallowed_repos(review: AdmissionReview, *, repos: Sequence[str] = ("k8s.gcr.io",)) -> Decision:
    """Deny images of containers and volumes that come from one of the repositories."""
    return deny_new(review, _violations, repos)


def _violations(review: AdmissionReview, repos: Sequence[str]) -> Iterator[str]:
    for image in review.images():
        try:
            reference = image.reference
        except ValueError:
            yield f"{image}: {image.image!r} is not a valid image reference"
            continue
        repo = next((repo for repo in repos if _is_from(reference, repo)), None)
        if repo is not None:
            yield f"{image}: image {image.image} must not come from {repo}"


def _is_from(reference: ImageReference, repo: str) -> bool:
    name = repo.removeprefix("index.").removeprefix("docker.io/")
    is_official = reference.registry == "docker.io" and reference.repository == f"library/{name}"
    return is_official or reference.within(repo)
