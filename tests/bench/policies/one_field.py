"""What one changed field costs: each policy is asked by its own path."""

from webhooks import AdmissionReview, Allow, Patch, Replace, mutating

PATH = "/spec/replicas"


@mutating("apps/deployments")
def allow(review: AdmissionReview) -> Allow:
    """Look at nothing."""
    return Allow()


@mutating("apps/deployments")
def read(review: AdmissionReview) -> Allow:
    """Look at the object and leave it."""
    review.object["spec"]["replicas"]
    return Allow()


@mutating("apps/deployments")
def patch(review: AdmissionReview) -> Patch:
    """Write the operation by hand."""
    return Patch([{"op": "replace", "path": PATH, "value": review.object["spec"]["replicas"] + 1}])


@mutating("apps/deployments")
def replace(review: AdmissionReview) -> Replace:
    """Change the object and hand it back."""
    obj = review.object
    obj["spec"]["replicas"] += 1
    return Replace(obj)
