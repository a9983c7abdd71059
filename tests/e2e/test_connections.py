"""Authentication of clients of the webhook server."""

import http.client
import json
import ssl
import urllib.request

import pytest

from .certificates import Pair
from .cluster import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ACCESS_REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SubjectAccessReview",
    "spec": {
        "user": "alice",
        "resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "vault"},
    },
}


def test_the_certificate_and_token_of_the_api_server_are_accepted(cluster: Cluster) -> None:
    status = _post(cluster, cluster.client)["status"]
    assert status["denied"] is True
    assert status["reason"] == "the vault is sealed"


@pytest.mark.parametrize("certificate", ["none", "untrusted"])
def test_other_clients_are_rejected_in_the_handshake(cluster: Cluster, certificate: str) -> None:
    """The client receives an alert, or only sees that the connection is closed."""
    with pytest.raises((ssl.SSLError, ConnectionError)):
        _post(cluster, cluster.untrusted if certificate == "untrusted" else None)


@pytest.mark.parametrize(
    ("certificate", "token", "code"), [("unlisted", "good", 403), ("unlisted", "bad", 403), ("client", "bad", 401)]
)
def test_other_clients_are_rejected_after_the_handshake(
    cluster: Cluster, certificate: str, token: str, code: int
) -> None:
    response = _post(cluster, getattr(cluster, certificate), cluster.token if token == "good" else "bad")
    assert (response["kind"], response["code"]) == ("Status", code)


@pytest.mark.parametrize("path", ["livez", "readyz", "healthz", "metrics"])
def test_operators_need_no_certificate(cluster: Cluster, path: str) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{cluster.ops_port}/{path}", timeout=10) as response:
        assert response.status == 200
        assert response.read()


def _post(cluster: Cluster, client: Pair | None, token: str | None = None) -> dict:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token or cluster.token}"}
    context = ssl.create_default_context(cafile=cluster.ca)
    if client:
        context.load_cert_chain(client.certificate, client.key)
    connection = http.client.HTTPSConnection("127.0.0.1", cluster.port, context=context, timeout=10)
    try:
        connection.request("POST", "/authorize", json.dumps(ACCESS_REVIEW), headers)
        return json.load(connection.getresponse())
    finally:
        connection.close()
