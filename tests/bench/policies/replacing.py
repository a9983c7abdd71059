"""The same two rules; the label is added by returning the whole object."""

from webhooks import AdmissionReview, Allow, Deny, Replace, mutating

LABEL = "admission.example.com/checked"
REGISTRY = "registry.example.com/"


@mutating("pods", "apps/deployments")
def checked(review: AdmissionReview) -> Replace:
    obj = review.object
    obj["metadata"].setdefault("labels", {})[LABEL] = "true"
    return Replace(obj)


@mutating("pods", "apps/deployments")
def registry(review: AdmissionReview) -> Allow | Deny:
    for container in review.containers():
        if not container.image.startswith(REGISTRY):
            return Deny(f"image {container.image} is not from {REGISTRY}")
    return Allow()
