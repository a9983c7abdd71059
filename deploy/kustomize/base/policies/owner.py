"""An example of a self-written policy: workloads have an owner."""

from webhooks import AdmissionReview, Allow, Decision, Deny, validating


@validating("apps/deployments", "apps/statefulsets", "apps/daemonsets", operations=["CREATE", "UPDATE"])
def owner(review: AdmissionReview, *, label: str = "owner") -> Decision:
    """Deny workloads without that label."""
    if label not in review.labels:
        return Deny(f"{review.kind.kind} {review.name} has no label {label!r}")
    return Allow()
