"""Containers run images from known places alone.

A place is a registry, or a path in it, compared part by part: ``registry.example.com`` does not let in
``registry.example.com.evil.org``, nor ``registry.example.com/team`` the repository ``registry.example.com/teamster``.

Parameters:
    repos: registries such as ``registry.example.com``, and paths in them such as ``docker.io/library``.

Allowed, with ``repos=["registry.example.com"]``::

    spec: {containers: [{name: web, image: registry.example.com/web:1.2}]}

Denied::

    spec: {containers: [{name: web, image: nginx}]}
"""

from collections.abc import Sequence

from webhooks import AdmissionReview, Allow, Container, Decision, Deny, validating


@validating("pods", "pods/ephemeralcontainers", "replicationcontrollers", "podtemplates", "apps/*", "batch/*")
def allowed_repos(review: AdmissionReview, *, repos: Sequence[str] = ("registry.k8s.io",)) -> Decision:
    """Deny objects with a container, of whichever kind, whose image comes from elsewhere."""
    strange = [container for container in review.containers() if not _is_from(container, repos)]
    if not strange:
        return Allow()
    named = ", ".join(f"{container.name} ({container.image})" for container in strange)
    return Deny(f"images from outside {', '.join(repos)}: {named}")


def _is_from(container: Container, repos: Sequence[str]) -> bool:
    try:
        reference = container.reference
    except ValueError:
        return False
    return any(reference.within(repo) for repo in repos)
