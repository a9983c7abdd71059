"""Denies PodDisruptionBudgets that allow no disruption, because they prevent nodes from being drained.

Only the values of the budget are checked. A ``minAvailable`` that equals the number of replicas of a workload is not
detected, whether it is a number, or a percentage below 100 that is rounded up.

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

from webhooks import AdmissionReview, Decision, deny_new, field, validating


@validating("policy/poddisruptionbudgets", operations=["CREATE", "UPDATE"])
def pod_disruption_budget(review: AdmissionReview) -> Decision:
    """Deny budgets that allow no disruption, whatever the number of pods."""
    return deny_new(review, _violations)


def _violations(review: AdmissionReview) -> Iterator[str]:
    for name in ("maxUnavailable", "minAvailable"):
        value = (field(review.target, "spec", dict) or {}).get(name)
        if value is None:
            continue
        if type(value) is not int and not (isinstance(value, str) and re.fullmatch("[0-9]{1,9}%", value)):
            yield f"spec.{name} must be an integer or a percentage"
        elif name == "maxUnavailable" and int(str(value).removesuffix("%")) <= 0:
            yield f"spec.maxUnavailable must be at least 1, not {value}"
        elif name == "minAvailable" and isinstance(value, str) and int(value[:-1]) >= 100:
            yield f"spec.minAvailable must be less than 100%, not {value}"
