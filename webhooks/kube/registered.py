"""Our registrations, as those know them who write them, compare them and keep them in step."""

API_VERSION = "admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
PLURALS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")

# The label that says whose they are.
MANAGED_BY, OURS = "app.kubernetes.io/managed-by", "webhooks"

MAX_TIMEOUT = 30  # seconds that a registration may have its API server wait
