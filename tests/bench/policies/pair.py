"""The two rules of the benchmark as mutating policies: the other servers also apply both to one request."""

from webhooks import AdmissionReview, Allow, Deny, Patch, mutating

LABEL = "admission.example.com/checked"
REGISTRY = "registry.example.com/"


@mutating("pods", "apps/deployments")
def checked(review: AdmissionReview) -> Allow | Patch:
    labels = review.labels
    if not labels:
        return Patch([{"op": "add", "path": "/metadata/labels", "value": {LABEL: "true"}}])
    if labels.get(LABEL) == "true":
        return Allow()
    return Patch([{"op": "add", "path": "/metadata/labels/admission.example.com~1checked", "value": "true"}])


@mutating("pods", "apps/deployments")
def registry(review: AdmissionReview) -> Allow | Deny:
    for container in review.containers():
        if not container.image.startswith(REGISTRY):
            return Deny(f"image {container.image} is not from {REGISTRY}")
    return Allow()
