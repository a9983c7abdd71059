"""API groups of Kubernetes, and constants of webhook configurations.

Most API servers send reviews of the groups ``*.k8s.io``. The specification also names them ``*.svc.io``, so both
spellings are accepted.
"""

_SUFFIXES = ("svc.io", "k8s.io")


def api_versions(group: str, *versions: str) -> frozenset[str]:
    """Return the values of ``apiVersion`` for versions of a group, in both spellings.

    Args:
        group: the first part of the name, such as ``admission``.
        versions: such as ``v1``, ``v1beta1``.
    """
    return frozenset(f"{group}.{suffix}/{version}" for suffix in _SUFFIXES for version in versions)


ADMISSION = api_versions("admission", "v1", "v1beta1")
AUTHORIZATION = api_versions("authorization", "v1", "v1beta1")
AUTHENTICATION = api_versions("authentication", "v1", "v1beta1")
IMAGE_POLICY = api_versions("imagepolicy", "v1alpha1")
AUDIT = api_versions("audit", "v1")
ADMISSION_CONFIGURATION = api_versions("apiserver.config", "v1")

# Webhook configurations.
ADMISSION_REGISTRATION = "admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = WEBHOOK_CONFIGURATION_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
WEBHOOK_CONFIGURATION_PLURALS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
MAX_TIMEOUT = 30  # seconds: the maximum of `timeoutSeconds` of a webhook

# The label of the objects that this package manages.
MANAGED_BY_LABEL, MANAGED_BY_VALUE = "app.kubernetes.io/managed-by", "webhooks"
