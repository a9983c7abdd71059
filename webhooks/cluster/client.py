"""An HTTP client of a cluster's API."""

import json
import ssl
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from webhooks._version import __version__
from webhooks.cluster.access import Access
from webhooks.cluster.credentials import Credentials
from webhooks.errors import ClusterError

_TIMEOUT = 10.0  # seconds, for each step of a request
_MAX_RESPONSE_SIZE = 16 * 1024 * 1024  # bytes


class _Response(NamedTuple):
    code: int
    reason: str
    body: bytes


class ClusterClient:
    """A client of one cluster's API as one user. It does not follow redirects.

    Args:
        access: the address and the credentials.

    Raises:
        ClusterError: the credentials or the CAs are invalid.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._credentials = access.credentials.refresh()
        self._client = self._create_client()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return self._access.server

    def get(self, path: str) -> Any:
        """Return the object at a path; None if it does not exist.

        Raises:
            ClusterError: the request failed, or the response is an error.
        """
        try:
            return self._request("GET", path)
        except ClusterError as error:
            if error.code == 404:
                return None
            raise

    def patch(self, path: str, patch: Any, media_type: str) -> Any:
        """Patch the object at a path, and return it.

        Raises:
            ClusterError: the request failed, or the response is an error; with the code 409 or 422 if the object has
                changed in the meantime.
        """
        return self._request("PATCH", path, json.dumps(patch).encode(), media_type)

    def _request(self, method: str, path: str, body: bytes | None = None, media_type: str = "") -> Any:
        self._refresh_credentials()
        headers = {"Content-Type": media_type} if media_type else {}
        token = self._credentials.read_token()
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        response = self._send(method, f"{self.server}{path}", headers, body)
        if 200 <= response.code < 300:
            return _parse_json(response.body, f"{self.server}{path}")
        raise ClusterError(
            f"{self.server}: {method} {path}: {response.code}: {_get_message(response)}", code=response.code
        )

    def _send(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> _Response:
        name = self._access.tls_server_name
        extensions = {} if name is None else {"sni_hostname": name}
        try:
            with self._client.stream(method, url, content=body, headers=headers, extensions=extensions) as response:
                return _Response(response.status_code, response.reason_phrase, _read_body(response, url))
        except (httpx2.LocalProtocolError, httpx2.InvalidURL, ValueError) as error:
            # The message may contain the token.
            raise ClusterError(f"{self.server}: the request cannot be sent: {type(error).__name__}") from None
        except httpx2.HTTPError as error:
            raise ClusterError(f"{self.server}: no response: {error or type(error).__name__}") from None

    def _refresh_credentials(self) -> None:
        credentials = self._access.credentials.refresh()
        if credentials is not self._credentials:
            self._credentials = credentials
            self._client.close()
            self._client = self._create_client()

    def _create_client(self) -> httpx2.Client:
        context = _create_tls_context(self._access.ca, self._credentials)
        try:
            return httpx2.Client(
                verify=context,
                proxy=self._access.proxy_url or _find_proxy(self.server),
                timeout=_TIMEOUT,
                headers={"Accept": "application/json", "User-Agent": f"webhooks/{__version__}"},
                trust_env=False,  # would also send the credentials of a .netrc
            )
        except (httpx2.InvalidURL, ImportError, ValueError) as error:
            raise ClusterError(f"the proxy for {self.server} is invalid: {type(error).__name__}") from None


def _find_proxy(server: str) -> str | None:
    """Return the proxy of the environment."""
    host = urlsplit(server).hostname or ""
    return None if proxy_bypass(host) else getproxies().get("https")


def _create_tls_context(ca: bytes | None, credentials: Credentials) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=None if ca is None else ca.decode())
        if credentials.certificate is not None and credentials.key is not None:
            # The module ssl loads certificates only from files.
            with tempfile.NamedTemporaryFile(suffix=".pem") as file:
                file.write(credentials.certificate + b"\n" + credentials.key)
                file.flush()
                context.load_cert_chain(Path(file.name), password="")
    except (ssl.SSLError, ValueError) as error:
        raise ClusterError(f"the certificates for the cluster are invalid: {error}") from None
    return context


def _read_body(response: httpx2.Response, url: str) -> bytes:
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > _MAX_RESPONSE_SIZE:
            raise ClusterError(f"{url}: the response has more than {_MAX_RESPONSE_SIZE} bytes")
    return bytes(body)


def _parse_json(content: bytes, location: str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        raise ClusterError(f"{location}: the response is not JSON: is this an API server?") from None


def _get_message(response: _Response) -> str:
    """Return the message of a Status, or else the reason phrase of the response."""
    try:
        message = json.loads(response.body)["message"]
    except (ValueError, LookupError, TypeError):
        message = response.reason
    return " ".join(str(message).split())[:500]
