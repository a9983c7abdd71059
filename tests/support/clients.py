"""Clients with certificates of every kind, and the certificate names that the servers of the tests allow."""

import ssl
from collections.abc import Mapping
from typing import Any

from .identities import CLIENT, DAY, SERVER, Identity
from .servers import REVIEWS, Reply, Server, client_context, review

VALIDATE = "/admission/validate"
ALLOWED_REVIEW = review()
TLS_ERRORS = (ssl.SSLError, ConnectionResetError, BrokenPipeError, EOFError)

ALLOWED_NAMES = ("listed", "cluster.example.org", "spiffe://cluster/api", "api@example.org", "10.1.2.3", "fd00::1")
# Arguments of `identity`.
LISTED: Mapping[str, dict[str, Any]] = {
    "by the common name": {"name": "listed"},
    "by the common name, with an alternative name": {"name": "listed", "names": ["DNS:other"]},
    "by a DNS name": {"name": "other", "names": ["DNS:first", "DNS:cluster.example.org"]},
    "by a URI": {"names": ["URI:spiffe://cluster/api"]},
    "by an email": {"name": "other", "names": ["email:api@example.org"]},
    "by an IPv4 address": {"names": ["IP:10.1.2.3"]},
    "by an IPv6 address": {"names": ["IP:fd00::1"]},
    "for any usage": {"name": "listed", "usages": []},
    "for servers and clients": {"name": "listed", "usages": [SERVER, CLIENT]},
}
# Arguments of `identity`, and the reason of the rejection. The signer is a name in the tests.
UNLISTED: Mapping[str, tuple[dict[str, Any], str]] = {
    "wrong name": ({"name": "unlisted"}, "unlisted_certificate"),
    "a longer name": ({"name": "listed.example.org"}, "unlisted_certificate"),
    "a name in another case": ({"name": "Listed"}, "unlisted_certificate"),
    "a name with a null byte": ({"name": "listed\0.example.org"}, "unlisted_certificate"),
    "an address as a name": ({"name": "other", "names": ["DNS:10.1.2.4"]}, "unlisted_certificate"),
    "no name": ({}, "unlisted_certificate"),
    "expired": ({"name": "listed", "not_before": -2 * DAY, "not_after": -DAY}, "bad_certificate"),
    "not yet valid": ({"name": "listed", "not_before": DAY, "not_after": 2 * DAY}, "bad_certificate"),
    "wrong usage": ({"name": "listed", "usages": [SERVER]}, "bad_certificate"),
    "wrong CA": ({"name": "listed", "signer": "other"}, "bad_certificate"),
    "self-signed": ({"name": "listed", "signer": None}, "bad_certificate"),
    "signed by a client": ({"name": "listed", "signer": "listed"}, "bad_certificate"),
}


def client_tls(server: Server, client: Identity) -> ssl.SSLContext:
    """Return the TLS context of a client of a server."""
    return client_context(server.folder / "certs" / "ca.pem", client.files)


def metric_samples(server: Server, name: str) -> dict[str, float]:
    """Return the samples of a metric by their labels."""
    lines = server.get("/metrics", ops=True).body.decode().splitlines()
    samples = [line.rsplit(" ", 1) for line in lines if line.startswith(name)]
    return {labels.removeprefix(name): float(value) for labels, value in samples}


def post_review(server: Server, context: ssl.SSLContext, path: str = VALIDATE, **headers: str) -> Reply | None:
    """Post a review that the policies allow; return None if the TLS handshake fails."""
    try:
        with server.connect(context) as connection:
            return connection.post(path, ALLOWED_REVIEW, {**REVIEWS, **headers})
    except TLS_ERRORS:
        return None
