"""Our own CA: issues, stores, renews and inspects certificates of the server and its clients.

A directory contains ``ca.pem``, which clients trust, ``ca-key.pem``, ``tls.pem`` with ``tls-key.pem`` for the server,
and ``NAME.pem`` with ``NAME-key.pem`` for clients. The key of the CA can sign a certificate for any name: keep it out
of reach, or use certificates of another CA (see `webhooks.server.tls`).
"""

from webhooks.certificates.issuing import ensure, issue, issue_client
from webhooks.certificates.names import default_names
from webhooks.certificates.pairs import ClientPair, ServingPair
from webhooks.certificates.renewal import renew

__all__ = ["ClientPair", "ServingPair", "default_names", "ensure", "issue", "issue_client", "renew"]
