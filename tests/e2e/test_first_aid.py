"""What the operations page says to do when a webhook refuses everything."""

import re
import shlex
from pathlib import Path

import pytest

from .kubectl import Kubectl
from .objects import config_map
from .processes import free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "operations.md"

# Its server is away, and all config maps of one namespace wait for it.
AWAY = """\
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


def test_the_commands_let_requests_pass_and_bring_the_registration_back(admin: Kubectl, tmp_path: Path) -> None:
    block = re.search(r"^```sh\n(kubectl get validating.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert block
    looking, deleting, applying = (shlex.split(line, comments=True)[1:] for line in block[1].splitlines())
    registrations = tmp_path / "webhook-configurations.yaml"
    registrations.write_text(AWAY.replace("PORT", str(free_ports(1)[0])))
    applying[applying.index("webhook-configurations.yaml")] = str(registrations)

    admin.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "away", "labels": {"webhooks": "away"}}}
    )
    asked = ("create", "--dry-run=server", "--validate=false", "-f", "-")
    given = config_map("web", "away")
    admin(*applying)
    try:
        admin.until(lambda output: "failed calling webhook" in output.err, *asked, given=given)
        assert "/webhooks " in admin(*looking).out
        admin(*deleting)
        admin.until(lambda output: output.code == 0, *asked, given=given)
        admin(*applying)
        admin.until(lambda output: "failed calling webhook" in output.err, *asked, given=given)
    finally:
        admin(*deleting)
