"""Disruption budgets let a pod go now and then, so that nodes can be emptied.

One that allows no pod to be unavailable, or wants all of them available, keeps a node from being drained for ever.
What the budget says by itself is checked. Whether ``minAvailable``, as a number or as a lower percentage rounded up, is
all the replicas that a workload has is not, and workloads are not checked against budgets.

Allowed::

    apiVersion: policy/v1
    kind: PodDisruptionBudget
    spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}

Denied::

    apiVersion: policy/v1
    kind: PodDisruptionBudget
    spec: {minAvailable: 100%, selector: {matchLabels: {app: web}}}
"""

import re
from collections.abc import Iterator

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, validating


@validating("policy/poddisruptionbudgets", operations=["CREATE", "UPDATE"])
def pod_disruption_budget(review: AdmissionReview) -> Decision:
    """Deny budgets that allow no disruption, however many pods there are."""
    found = introduced(review, _violations)
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview) -> Iterator[str]:
    for name in ("maxUnavailable", "minAvailable"):
        value = (field(review.target, "spec", dict) or {}).get(name)
        if value is None:
            continue
        if type(value) is not int and not (isinstance(value, str) and re.fullmatch("[0-9]{1,9}%", value)):
            yield f"spec.{name} must be a whole number or a percentage"
        elif name == "maxUnavailable" and int(str(value).removesuffix("%")) <= 0:
            yield f"spec.maxUnavailable: {value} never lets a pod go, allow 1 at least"
        elif name == "minAvailable" and isinstance(value, str) and int(value[:-1]) >= 100:
            yield f"spec.minAvailable: {value} never lets a pod go, want less than 100%"
