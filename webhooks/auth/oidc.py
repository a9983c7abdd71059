"""Verifies tokens of an OpenID Connect issuer: signature, audience, lifetime and subject.

The keys of the issuer are fetched for the first token, when a token names an unknown key, and every few minutes, since
the issuer may have revoked a key. If they cannot be fetched, the previous keys stay in use.
"""

import asyncio
import json
import logging
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from time import monotonic, time
from typing import Any
from urllib.parse import urlsplit

import httpx2
from joserfc import jwk, jws, jwt
from joserfc.errors import InvalidKeyIdError, JoseError

from webhooks.auth.client import Rejection
from webhooks.auth.token_file import TokenHash
from webhooks.certificates.verification import load_client_context
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry

logger = logging.getLogger("webhooks.auth")

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
LEEWAY = 10  # seconds of clock skew
MIN_FETCH_INTERVAL = 10.0  # seconds between two fetches of the keys
CACHE_TTL = 300.0  # seconds, for verified tokens and for the keys
_MAX_CACHED_TOKENS = 1024
_FETCH_TIMEOUT = 10.0  # seconds
_MAX_RESPONSE_SIZE = 1024 * 1024  # bytes
_MIN_MODULUS_LENGTH = 2048 // 6  # characters of base64

_registry = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)


class OidcIssuer:
    """An issuer of tokens.

    Args:
        url: the URL of the issuer, exactly as in the claim ``iss``.
        audience: the name of this server in the claim ``aud``.
        subjects: the subjects to accept.
        ca: the CAs of the issuer's certificate (PEM); None for the CAs of this host.
        metrics: counts failed fetches of the keys.

    Raises:
        ConfigurationError: the URL is not https, or has more than a host and a path; the audience is empty; or the file
            contains no CA.
    """

    def __init__(
        self, url: str, audience: str, subjects: Collection[str], ca: Path | None, metrics: MetricRegistry
    ) -> None:
        _check_url(url)
        if not audience:
            raise ConfigurationError("--oidc-issuer requires --oidc-audience: an issuer also issues tokens to others")
        load_client_context(ca)
        self._url = url
        self._subjects = frozenset(subjects)
        self._ca = ca
        self._claims = jwt.JWTClaimsRegistry(
            leeway=LEEWAY,
            iss={"essential": True, "value": url},
            aud={"essential": True, "value": audience},
            sub={"essential": True},
            exp={"essential": True},
        )
        self._failures = metrics.counter("webhooks_oidc_key_failures", "Failed fetches of the keys of the OIDC issuer.")
        self._keys = jwk.KeySet([])
        self._cache: dict[TokenHash, tuple[str, float]] = {}  # user and expiry
        self._last_fetch = self._last_attempt = -CACHE_TTL
        self._fetch: asyncio.Task[None] | None = None

    def verify(self, token_hash: TokenHash, token: bytes) -> str | Rejection | None:
        """Return the user of a token; None if `refresh` must be called first."""
        cached = self._cache.get(token_hash)
        if cached is not None and time() < cached[1]:
            return cached[0]
        if monotonic() - self._last_fetch > CACHE_TTL and self._keys and self._may_fetch():
            self._start_fetch()
        try:
            claims = jwt.decode(token, self._keys, registry=_registry).claims
            self._claims.validate(claims)
        except InvalidKeyIdError:
            return None if self._may_fetch() else self._reject_unknown_key()
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            return Rejection(401, "bad_token", f"its token is invalid: {error}")
        if claims["sub"] not in self._subjects:
            return Rejection(403, "unlisted_subject", f"the subject of its token is not allowed: {claims['sub']!r}")
        self._cache_token(token_hash, claims)
        return str(claims["sub"])

    def _cache_token(self, token_hash: TokenHash, claims: dict[str, Any]) -> None:
        """Cache a verified token, for at most its lifetime."""
        if len(self._cache) >= _MAX_CACHED_TOKENS:
            self._cache.pop(next(iter(self._cache)))
        self._cache[token_hash] = claims["sub"], min(claims["exp"] + LEEWAY, time() + CACHE_TTL)

    def _reject_unknown_key(self) -> Rejection:
        if self._keys:
            return Rejection(401, "bad_token", "no key of the issuer matches the signature of its token")
        return Rejection(503, "no_keys", f"the keys of {self._url} have not been fetched yet")

    def _may_fetch(self) -> bool:
        return self._fetch is not None or monotonic() - self._last_attempt >= MIN_FETCH_INTERVAL

    async def refresh(self) -> None:
        """Fetch the keys, or wait for a fetch in progress. Never raises an exception."""
        await asyncio.shield(self._start_fetch())

    def _start_fetch(self) -> asyncio.Task[None]:
        if self._fetch is None:
            self._fetch = asyncio.get_running_loop().create_task(self._fetch_keys())
        return self._fetch

    async def _fetch_keys(self) -> None:
        try:
            async with asyncio.timeout(_FETCH_TIMEOUT):
                self._keys = _select_keys(await self._download_keys())
            self._last_fetch = monotonic()
            self._cache.clear()  # the key of a cached token may have been revoked
        except Exception as error:
            self._failures.add()
            reason = f"{type(error).__name__}: {error}"
            logger.error("the keys of %s cannot be fetched, and the previous keys stay in use: %s", self._url, reason)
        finally:
            self._last_attempt = monotonic()
            self._fetch = None

    async def _download_keys(self) -> Any:
        """Return the keys that the issuer publishes (OpenID Connect Discovery 1.0, sections 3 and 4)."""
        context = await asyncio.to_thread(load_client_context, self._ca)
        async with httpx2.AsyncClient(verify=context, timeout=_FETCH_TIMEOUT) as client:
            metadata = await _get_json(client, f"{self._url.rstrip('/')}/.well-known/openid-configuration")
            if metadata["issuer"] != self._url:
                raise ValueError(f"the issuer in its own metadata is {metadata['issuer']!r}")
            if not metadata["jwks_uri"].startswith("https://"):
                raise ValueError(f"jwks_uri is not an https URL: {metadata['jwks_uri']!r}")
            return await _get_json(client, metadata["jwks_uri"])


async def _get_json(client: httpx2.AsyncClient, url: str) -> Any:
    async with client.stream("GET", url) as response:
        response.raise_for_status()
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MAX_RESPONSE_SIZE:
                raise ValueError(f"{url}: more than {_MAX_RESPONSE_SIZE} bytes")
    return json.loads(body)


def _select_keys(published: Any) -> jwk.KeySet:
    """Select the keys that can verify one of our algorithms.

    Raises:
        ValueError: no key can.
    """
    keys: list[jwk.Key] = []
    for key in published["keys"]:
        # One malformed key must not affect the others.
        with suppress(JoseError, ValueError, TypeError, KeyError, AttributeError):
            if key["kty"] == "EC" or (key["kty"] == "RSA" and len(key["n"]) >= _MIN_MODULUS_LENGTH):
                keys.append(jwk.import_key(key))
    if not keys:
        raise ValueError("the issuer publishes no RSA or ECDSA keys for signatures")
    return jwk.KeySet(keys)


def _check_url(url: str) -> None:
    """Check the URL of an issuer (OpenID Connect Core 1.0, section 2)."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme == "https" and parts.hostname and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or set("@?#") & set(url):
        raise ConfigurationError("--oidc-issuer must be https:// with a host and an optional path, and nothing else")
