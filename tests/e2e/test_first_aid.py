"""The commands of the operations page for a webhook that rejects all requests."""

import re
import shlex
from pathlib import Path

import pytest

from .kubectl import Kubectl
from .objects import config_map
from .processes import free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "operations.md"

# Its server is not running, and it is called for all ConfigMaps of one namespace.
CONFIGURATION = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: webhooks, labels: {app.kubernetes.io/managed-by: webhooks}}
webhooks:
- name: away.example.com
  clientConfig: {url: "https://127.0.0.1:PORT/admission/validate"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  namespaceSelector: {matchLabels: {webhooks: away}}
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
"""


def test_the_commands_remove_and_restore_the_webhook_configuration(admin: Kubectl, tmp_path: Path) -> None:
    block = re.search(r"^```sh\n(kubectl get validating.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert block
    get, delete, apply = (shlex.split(line, comments=True)[1:] for line in block[1].splitlines())
    path = tmp_path / "webhook-configurations.yaml"
    path.write_text(CONFIGURATION.replace("PORT", str(free_ports(1)[0])))
    apply[apply.index("webhook-configurations.yaml")] = str(path)

    admin.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "away", "labels": {"webhooks": "away"}}}
    )
    create = ("create", "--dry-run=server", "--validate=false", "-f", "-")
    body = config_map("web", "away")
    admin(*apply)
    try:
        admin.retry_until(lambda output: "failed calling webhook" in output.err, *create, body=body)
        assert "/webhooks " in admin(*get).out
        admin(*delete)
        admin.retry_until(lambda output: output.code == 0, *create, body=body)
        admin(*apply)
        admin.retry_until(lambda output: "failed calling webhook" in output.err, *create, body=body)
    finally:
        admin(*delete)
