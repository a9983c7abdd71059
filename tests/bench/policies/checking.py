"""The validating rule only."""

from webhooks import AdmissionReview, Allow, Deny, validating

REGISTRY = "registry.example.com/"


@validating("pods", "apps/deployments")
def registry(review: AdmissionReview) -> Allow | Deny:
    for container in review.containers():
        if not container.image.startswith(REGISTRY):
            return Deny(f"image {container.image} is not from {REGISTRY}")
    return Allow()
