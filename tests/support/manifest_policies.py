"""Policies for tests of the manifests package."""

from dataclasses import replace
from typing import Any

from webhooks import AdmissionReview, Allow, validating
from webhooks.config.models import MatchOverride
from webhooks.config.policies import build_admission_match
from webhooks.policy.model import Policy

Json = dict[str, Any]


def admission_policy(*rules: str, operator_match: Json | None = None, **options: Any) -> Policy[Any, Any]:
    """Return a validating policy; without rules and operations it matches everything.

    Args:
        rules: the resources.
        operator_match: the match of the operator, as in a configuration file.
        options: the options of the decorator.
    """

    @validating(*(rules or ("*/*",)), **{"operations": ["*"], **options})
    def policy(review: AdmissionReview) -> Allow:
        return Allow()

    return policy if operator_match is None else with_operator_match(policy, operator_match)


def with_operator_match(policy: Policy[Any, Any], match: Json) -> Policy[Any, Any]:
    """Return a policy with the match of its operator; fields that are None are omitted."""
    fields = {
        key: tuple(value) if isinstance(value, list) else value for key, value in match.items() if value is not None
    }
    return replace(policy, operator_match=build_admission_match(MatchOverride.model_validate(fields)))
