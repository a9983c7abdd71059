"""Who gets through to our server at all."""

import http.client
import json
import ssl
import urllib.request

import pytest

from .certificates import Pair
from .cluster import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

QUESTION = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SubjectAccessReview",
    "spec": {
        "user": "alice",
        "resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "vault"},
    },
}


def test_the_api_servers_certificate_and_token_are_let_in(cluster: Cluster) -> None:
    status = _ask(cluster, cluster.caller)["status"]
    assert status["denied"] is True
    assert status["reason"] == "the vault is sealed"


@pytest.mark.parametrize("who", ["nobody", "stranger"])
def test_nobody_else_is_let_in(cluster: Cluster, who: str) -> None:
    """Refused within the handshake; the caller may see the alert, or only that the connection ended."""
    with pytest.raises((ssl.SSLError, ConnectionError)):
        _ask(cluster, cluster.stranger if who == "stranger" else None)


@pytest.mark.parametrize(
    ("who", "token", "code"), [("unlisted", "good", 403), ("unlisted", "bad", 403), ("caller", "bad", 401)]
)
def test_nobody_else_is_heard(cluster: Cluster, who: str, token: str, code: int) -> None:
    answer = _ask(cluster, getattr(cluster, who), cluster.token if token == "good" else "bad")
    assert (answer["kind"], answer["code"]) == ("Status", code)


@pytest.mark.parametrize("path", ["livez", "readyz", "healthz", "metrics"])
def test_operators_need_no_certificate(cluster: Cluster, path: str) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{cluster.ops_port}/{path}", timeout=10) as answer:
        assert answer.status == 200
        assert answer.read()


def _ask(cluster: Cluster, caller: Pair | None, token: str | None = None) -> dict:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token or cluster.token}"}
    context = ssl.create_default_context(cafile=cluster.authority)
    if caller:
        context.load_cert_chain(caller.certificate, caller.key)
    connection = http.client.HTTPSConnection("127.0.0.1", cluster.port, context=context, timeout=10)
    try:
        connection.request("POST", "/authorize", json.dumps(QUESTION), headers)
        return json.load(connection.getresponse())
    finally:
        connection.close()
