"""The cost of changing one field: each policy has its own path."""

from webhooks import AdmissionReview, Allow, Patch, Replace, mutating

REPLICAS = 5  # the object has 3


@mutating("apps/deployments")
def allow(review: AdmissionReview) -> Allow:
    """Read nothing."""
    return Allow()


@mutating("apps/deployments")
def read(review: AdmissionReview) -> Allow:
    """Read the object and do not change it."""
    review.object["spec"]["replicas"]
    return Allow()


@mutating("apps/deployments")
def patch(review: AdmissionReview) -> Patch:
    """Return the operation."""
    return Patch([{"op": "replace", "path": "/spec/replicas", "value": REPLICAS}])


@mutating("apps/deployments")
def replace(review: AdmissionReview) -> Replace:
    """Change the object and return it."""
    obj = review.object
    obj["spec"]["replicas"] = REPLICAS
    return Replace(obj)
