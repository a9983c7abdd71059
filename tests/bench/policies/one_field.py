"""What one changed field costs: each policy is asked by its own path."""

from webhooks import AdmissionReview, Allow, Patch, Replace, mutating

REPLICAS = 5  # the object has 3


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
    return Patch([{"op": "replace", "path": "/spec/replicas", "value": REPLICAS}])


@mutating("apps/deployments")
def replace(review: AdmissionReview) -> Replace:
    """Change the object and hand it back."""
    obj = review.object
    obj["spec"]["replicas"] = REPLICAS
    return Replace(obj)
