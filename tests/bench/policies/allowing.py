"""A policy that allows and reads nothing: the cost of the server alone."""

from webhooks import AdmissionReview, Allow, mutating


@mutating("pods", "apps/deployments")
def allow(review: AdmissionReview) -> Allow:
    return Allow()
