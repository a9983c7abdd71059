"""Asking a cluster's API."""

import json
import ssl
import tempfile
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from webhooks._version import __version__
from webhooks.cluster.access import Access
from webhooks.cluster.kubeconfig import User
from webhooks.errors import ClusterError

_PATIENCE = 10.0  # seconds
_MAX_SIZE = 16 * 1024 * 1024  # bytes of an answer


class ClusterClient:
    """One cluster's API, as one user of it. It does not follow redirects.

    Args:
        access: the way to it.

    Raises:
        ClusterError: what we are to show, or to trust, is not what it must be.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._user = access.user.ready()
        self._client = self._connected()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def server(self) -> str:
        """Where it is."""
        return self._access.server

    def get(self, path: str) -> Any:
        """What is at a path; None where there is nothing.

        Raises:
            ClusterError: it does not answer, or refuses.
        """
        try:
            return self._ask("GET", path)
        except ClusterError as error:
            if error.code == 404:
                return None
            raise

    def patch(self, path: str, patch: Any, media_type: str) -> Any:
        """Change what is at a path; the object as it is then.

        Raises:
            ClusterError: it does not answer, or refuses; with the code 409 or 422 where it has changed meanwhile.
        """
        return self._ask("PATCH", path, json.dumps(patch).encode(), media_type)

    def _ask(self, method: str, path: str, body: bytes | None = None, media_type: str = "") -> Any:
        self._renew()
        headers = {"Content-Type": media_type} if media_type else {}
        bearer = self._user.bearer()
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        try:
            answer = self._client.request(
                method, f"{self.server}{path}", content=body, headers=headers, extensions=self._tls()
            )
        except (httpx2.LocalProtocolError, httpx2.InvalidURL, ValueError) as error:
            # What it says of itself shows what was to be sent, and that may be a token.
            raise ClusterError(f"{self.server} cannot be asked: {type(error).__name__}") from None
        except httpx2.HTTPError as error:
            raise ClusterError(f"{self.server} does not answer: {error or type(error).__name__}") from None
        if answer.is_success and len(answer.content) <= _MAX_SIZE:
            return _read(answer.content, f"{self.server}{path}")
        raise ClusterError(
            f"{self.server}: {method} {path}: {answer.status_code}: {_reason(answer)}", code=answer.status_code
        )

    def _tls(self) -> dict[str, Any]:
        name = self._access.server_name
        return {} if name is None else {"sni_hostname": name}

    def _renew(self) -> None:
        """Take credentials that take the place of those that have ended."""
        user = self._access.user.ready()
        if user is not self._user:
            self._user = user
            self._client.close()
            self._client = self._connected()

    def _connected(self) -> httpx2.Client:
        context = _context(self._access.ca, self._user)
        try:
            return httpx2.Client(
                verify=context,
                proxy=self._access.proxy or _usual_proxy(self.server),
                timeout=_PATIENCE,
                headers={"Accept": "application/json", "User-Agent": f"webhooks/{__version__}"},
                trust_env=False,  # credentials of a .netrc are not meant for this
            )
        except (httpx2.InvalidURL, ImportError, ValueError) as error:
            raise ClusterError(f"the proxy for {self.server} cannot be used: {type(error).__name__}") from None


def _usual_proxy(server: str) -> str | None:
    """The environment's."""
    host = urlsplit(server).hostname or ""
    return None if proxy_bypass(host) else getproxies().get("https")


def _context(ca: bytes | None, user: User) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=None if ca is None else ca.decode())
        if user.certificate is not None and user.key is not None:
            # The library takes certificates from files alone.
            with tempfile.NamedTemporaryFile(suffix=".pem") as file:
                file.write(user.certificate + b"\n" + user.key)
                file.flush()
                context.load_cert_chain(Path(file.name), password="")
    except (ssl.SSLError, ValueError) as error:
        raise ClusterError(f"the certificates for the cluster are not usable: {error}") from None
    return context


def _read(content: bytes, place: str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        raise ClusterError(f"{place}: the answer is no JSON: is this an API server?") from None


def _reason(answer: httpx2.Response) -> str:
    """What a Status says, or else the code does."""
    try:
        message = json.loads(answer.content)["message"]
    except (ValueError, LookupError, TypeError):
        message = answer.reason_phrase
    return " ".join(str(message).split())[:500]
