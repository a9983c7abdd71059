"""Requires images to come from certain registries or repositories.

Paths are compared component by component: ``registry.example.com`` does not match ``registry.example.com.evil.org``,
and ``registry.example.com/team`` does not match ``registry.example.com/teamster``. The images of all containers and of
volumes are checked.

Parameters:
    repos: registries such as ``registry.example.com``, or paths in a registry such as ``docker.io/library``.

Allowed, with ``repos=["registry.example.com"]``::

    spec: {containers: [{name: web, image: registry.example.com/web:1.2}]}

Denied::

    spec: {containers: [{name: web, image: nginx}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import WORKLOADS, AdmissionReview, Decision, Image, deny_new, validating


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def allowed_repos(review: AdmissionReview, *, repos: Sequence[str] = ("registry.k8s.io",)) -> Decision:
    """Deny images of containers and volumes that come from other repositories."""
    return deny_new(review, _violations, repos)


def _violations(review: AdmissionReview, repos: Sequence[str]) -> Iterator[str]:
    for image in review.images():
        if not _is_from(image, repos):
            yield f"{image}: image {image.image} must come from {' or '.join(repos) or 'an allowed repository'}"


def _is_from(image: Image, repos: Sequence[str]) -> bool:
    try:
        reference = image.reference
    except ValueError:
        return False
    return any(reference.within(repo) for repo in repos)
