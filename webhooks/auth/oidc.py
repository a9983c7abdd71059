"""Tokens of an OpenID Connect issuer: signed by its keys, for us, and for subjects that may call.

Its keys are fetched when the first token comes, when one names a key that is not known, and after some minutes, since a
key may have been taken back. Where they cannot be had, those from before are used on.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from time import monotonic, time
from typing import Any
from urllib.parse import urlsplit

import httpx2
from joserfc import jwk, jws, jwt
from joserfc.errors import InvalidKeyIdError, JoseError

from webhooks.auth.authenticator import Rejection
from webhooks.auth.token_file import TokenHash
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry

logger = logging.getLogger("webhooks.auth")

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
LEEWAY = 10  # seconds that clocks may differ
INTERVAL = 10.0  # seconds at least between two times that the keys are fetched
LASTING = 300.0  # seconds, after which what was found of a token or fetched of the keys is looked at again
_MAX_KNOWN = 1024  # tokens
_DEADLINE = 10.0  # seconds for fetching the keys
_MAX_SIZE = 1024 * 1024  # bytes of a document of the issuer
_MIN_MODULUS = 2048 // 6  # characters of base64

_registry = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)


class OidcIssuer:
    """An issuer of tokens.

    Args:
        url: of the issuer, just as its tokens name it.
        audience: what its tokens call us.
        subjects: those that may call.
        ca: who signs the issuer's certificate; None for whom this machine trusts.
        meters: where it is counted how often the keys could not be fetched.

    Raises:
        ConfigurationError: the URL is not of https, or has more than a host and path; or the authority is none.
    """

    def __init__(
        self, url: str, audience: str, subjects: Collection[str], ca: Path | None, meters: MetricRegistry
    ) -> None:
        _check(url)
        _trust(ca)
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
        self._failures = meters.counter(
            "webhooks_oidc_key_failures", "How often the keys of the issuer of tokens could not be fetched."
        )
        self._keys = jwk.KeySet([])
        self._known: dict[TokenHash, tuple[str, float]] = {}
        self._fetched = self._tried = -LASTING
        self._fetching: asyncio.Task[None] | None = None

    def user(self, sealed: TokenHash, token: bytes) -> str | Rejection | None:
        """Whose token it is; None where the keys have to be asked for first."""
        known = self._known.get(sealed)
        if known is not None and time() < known[1]:
            return known[0]
        if monotonic() - self._fetched > LASTING and self._keys and self._may_fetch():
            self._start()
        try:
            claims = jwt.decode(token, self._keys, registry=_registry).claims
            self._claims.validate(claims)
        except InvalidKeyIdError:
            return None if self._may_fetch() else self._unknown_key()
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            return Rejection(401, "bad_token", f"its token is not taken: {error}")
        if claims["sub"] not in self._subjects:
            return Rejection(403, "unlisted_subject", f"its token is for another subject: {claims['sub']!r}")
        self._keep(sealed, claims)
        return str(claims["sub"])

    def _keep(self, sealed: TokenHash, claims: dict[str, Any]) -> None:
        """Know a token again, for a while."""
        if len(self._known) >= _MAX_KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[sealed] = claims["sub"], min(claims["exp"] + LEEWAY, time() + LASTING)

    def _unknown_key(self) -> Rejection:
        if self._keys:
            return Rejection(401, "bad_token", "its token is signed by none of the issuer's keys")
        return Rejection(503, "no_keys", f"no keys of {self._url} are known as yet")

    def _may_fetch(self) -> bool:
        return self._fetching is not None or monotonic() - self._tried >= INTERVAL

    async def refresh(self) -> None:
        """Fetch the keys, or wait for those who do already. Raises nothing."""
        await asyncio.shield(self._start())

    def _start(self) -> asyncio.Task[None]:
        if self._fetching is None:
            self._fetching = asyncio.get_running_loop().create_task(self._fetch())
        return self._fetching

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(_DEADLINE):
                self._keys = _usable(await self._published())
            self._fetched = monotonic()
            self._known.clear()  # some may have been signed by a key that was taken back
        except Exception as error:
            self._failures.add()
            reason = f"{type(error).__name__}: {error}"
            logger.error("the keys of %s cannot be fetched, those from before are used on: %s", self._url, reason)
        finally:
            self._tried = monotonic()
            self._fetching = None

    async def _published(self) -> Any:
        """The keys as the issuer publishes them (OpenID Connect Discovery 1.0, sections 3 and 4)."""
        context = await asyncio.to_thread(_trust, self._ca)
        async with httpx2.AsyncClient(verify=context, timeout=_DEADLINE) as client:
            about = await _get(client, f"{self._url.rstrip('/')}/.well-known/openid-configuration")
            if about["issuer"] != self._url:
                raise ValueError(f"the issuer calls itself {about['issuer']!r}")
            if not about["jwks_uri"].startswith("https://"):
                raise ValueError(f"the keys are not at https: {about['jwks_uri']!r}")
            return await _get(client, about["jwks_uri"])


async def _get(client: httpx2.AsyncClient, url: str) -> Any:
    async with client.stream("GET", url) as response:
        response.raise_for_status()
        body = b""
        async for part in response.aiter_bytes():
            body += part
            if len(body) > _MAX_SIZE:
                raise ValueError(f"{url} has more than {_MAX_SIZE} bytes")
    return json.loads(body)


def _usable(published: Any) -> jwk.KeySet:
    """The keys that verify our algorithms, of all that are published.

    Raises:
        ValueError: there is none.
    """
    keys: list[jwk.Key] = []
    for each in published["keys"]:
        with suppress(JoseError, ValueError, TypeError, KeyError, AttributeError):  # what one is no good for others
            if each["kty"] == "EC" or (each["kty"] == "RSA" and len(each["n"]) >= _MIN_MODULUS):
                keys.append(jwk.import_key(each))
    if not keys:
        raise ValueError("it publishes no keys for signatures by RSA or ECDSA")
    return jwk.KeySet(keys)


def _trust(ca: Path | None) -> ssl.SSLContext:
    """Whose word is taken for the issuer's name."""
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise ConfigurationError(f"{ca}: no certificates of an authority ({error.reason or error})") from None
    except OSError as error:
        raise ConfigurationError(f"{ca}: cannot be read: {error.strerror or error}") from None


def _check(url: str) -> None:
    """Make sure that it is the URL of an issuer (OpenID Connect Core 1.0, section 2)."""
    try:
        parts = urlsplit(url)
        good = parts.scheme == "https" and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or set("@?#") & set(url):
        raise ConfigurationError("--oidc-issuer must be https://, a host and perhaps a path, and nothing else")
