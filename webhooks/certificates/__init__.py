"""Certificates of one's own: an authority, what it signs for a server and its callers, and their renewal.

A directory holds ``ca.pem``, which callers trust, ``ca-key.pem``, ``tls.pem`` with ``tls-key.pem`` for the server, and
``NAME.pem`` with ``NAME-key.pem`` for callers. Whoever can read the authority's key can be anybody: keep it out of
reach, or have somebody else issue (see `webhooks.server.tls`).
"""

from webhooks.certificates.issuing import ensure, issue, issue_client
from webhooks.certificates.names import default_names
from webhooks.certificates.pairs import ClientPair, ServingPair
from webhooks.certificates.renewal import Renewal, renew

__all__ = ["ClientPair", "Renewal", "ServingPair", "default_names", "ensure", "issue", "issue_client", "renew"]
