import pytest

from webhooks.kube import api_groups
from webhooks.kube.resources import plural_name

SPELLINGS = {
    "ADMISSION": {"admission.svc.io/v1", "admission.svc.io/v1beta1", "admission.k8s.io/v1", "admission.k8s.io/v1beta1"},
    "AUTHORIZATION": {
        "authorization.svc.io/v1",
        "authorization.svc.io/v1beta1",
        "authorization.k8s.io/v1",
        "authorization.k8s.io/v1beta1",
    },
    "AUTHENTICATION": {
        "authentication.svc.io/v1",
        "authentication.svc.io/v1beta1",
        "authentication.k8s.io/v1",
        "authentication.k8s.io/v1beta1",
    },
    "IMAGE_POLICY": {"imagepolicy.svc.io/v1alpha1", "imagepolicy.k8s.io/v1alpha1"},
    "AUDIT": {"audit.svc.io/v1", "audit.k8s.io/v1"},
    "ADMISSION_CONFIGURATION": {"apiserver.config.svc.io/v1", "apiserver.config.k8s.io/v1"},
}


@pytest.mark.parametrize(("name", "spellings"), SPELLINGS.items())
def test_every_group_has_both_spellings(name: str, spellings: set[str]) -> None:
    assert getattr(api_groups, name) == spellings


def test_every_group_is_tested() -> None:
    assert {name for name, value in vars(api_groups).items() if isinstance(value, frozenset)} == set(SPELLINGS)


def test_each_kind_of_webhook_configuration_has_its_plural() -> None:
    kinds = map(plural_name, api_groups.WEBHOOK_CONFIGURATION_KINDS)
    assert tuple(kinds) == api_groups.WEBHOOK_CONFIGURATION_PLURALS
