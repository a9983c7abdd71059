"""Tokens of an OpenID Connect issuer: verification, caching, and changes and outages of its keys."""

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwk, jws
from joserfc.registry import HeaderParameter

from webhooks import certificates
from webhooks.auth import oidc
from webhooks.auth.authenticator import Authenticator
from webhooks.auth.client import ANONYMOUS, Authentication, Client, Rejection
from webhooks.auth.oidc import ALGORITHMS, CACHE_TTL, LEEWAY, MIN_FETCH_INTERVAL, OidcIssuer
from webhooks.observability.metrics import MetricRegistry

from ..support.issuer import Issuer, issuing
from ..support.servers import REVIEWS, review, serving

RSA = jwk.RSAKey.generate_key(2048)
KEYS: Mapping[str, jwk.RSAKey | jwk.ECKey] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), RSA),
    "ES256": jwk.ECKey.generate_key("P-256"),
    "ES384": jwk.ECKey.generate_key("P-384"),
    "ES512": jwk.ECKey.generate_key("P-521"),
}


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    with issuing(tmp_path / "issuer") as issuer:
        yield issuer


class Clock:
    """A clock that the tests advance, in place of the clock of the module."""

    def __init__(self) -> None:
        self.offset = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.offset

    def time(self) -> float:
        return time.time() + self.offset


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(oidc, "monotonic", clock.monotonic)
    monkeypatch.setattr(oidc, "time", clock.time)
    return clock


class Verifier:
    """An authenticator that accepts the tokens of an issuer."""

    def __init__(self, issuer: Issuer, *subjects: str, ca: Path | None = None) -> None:
        self.metrics = MetricRegistry()
        self.oidc = OidcIssuer(issuer.url, "webhooks", subjects or ("jane",), ca or issuer.ca, self.metrics)
        self.oidc._claims._now = lambda: int(oidc.time())
        self.authenticator = Authenticator(self.metrics, issuer=self.oidc)

    async def verify(self, token: str | bytes) -> Authentication:
        token = token if isinstance(token, bytes) else token.encode()
        return await self.authenticator.authenticate_request_async(ANONYMOUS, b"Bearer " + token)

    def verify_now(self, token: str) -> Authentication | None:
        return self.authenticator.authenticate_request(ANONYMOUS, f"Bearer {token}".encode())

    @property
    def failures(self) -> float:
        return self.metrics.by_name["webhooks_oidc_key_failures"].values.get((), 0.0)  # type: ignore[return-value]


def verify(issuer: Issuer, token: str | bytes, *subjects: str) -> Authentication:
    return asyncio.run(Verifier(issuer, *subjects).verify(token))


def rejection(result: Authentication | None) -> tuple[int, str]:
    assert isinstance(result, Rejection)
    return result.code, result.reason


JANE = Client(user="jane")
BAD = (401, "bad_token")


# Tokens.


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm(algorithm: str, issuer: Issuer) -> None:
    issuer.keys["first"] = KEYS[algorithm]
    assert verify(issuer, issuer.token(algorithm=algorithm)) == JANE


NOW = 0  # seconds from now, in the claims below
GOOD: Mapping[str, dict[str, Any]] = {
    "as usual": {},
    "one audience": {"aud": "webhooks"},
    "several audiences": {"aud": ["other", "webhooks"]},
    "neither iat nor nbf": {"iat": ..., "nbf": ...},
    "fractions of seconds": {"exp": 600.5, "iat": -0.5},
    "just expired": {"exp": NOW - LEEWAY + 8},
    "valid in a moment": {"nbf": NOW + LEEWAY - 3, "iat": NOW + LEEWAY - 3},
    "more claims": {"groups": ["a"], "email": "jane@example.org", "kubernetes.io": {"namespace": "default"}},
    "no kid, and one key": {"kid": None},
}
REJECTED: Mapping[str, dict[str, Any]] = {
    "another audience": {"aud": "other"},
    "other audiences": {"aud": ["other", "webhooks.example.org"]},
    "a part of the audience": {"aud": ["webhook"]},
    "no audience": {"aud": ...},
    "an empty list of audiences": {"aud": []},
    "a mapping as audience": {"aud": {"webhooks": True}},
    "another issuer": {"iss": "https://issuer.example.org"},
    "the issuer with a slash": {"iss": "/"},
    "no issuer": {"iss": ...},
    "a list as issuer": {"iss": []},
    "no subject": {"sub": ...},
    "an empty subject": {"sub": None},
    "a list as subject": {"sub": ["jane"]},
    "expired": {"exp": NOW - LEEWAY - 1},
    "no expiry": {"exp": ...},
    "a string as expiry": {"exp": "600"},
    "true as expiry": {"exp": True},
    "NaN as expiry": {"exp": float("nan")},
    "infinity as expiry": {"exp": float("inf")},
    "not yet valid": {"nbf": NOW + LEEWAY + 30},
    "issued in the future": {"iat": NOW + LEEWAY + 30},
    "a string as nbf": {"nbf": "0"},
}


def absolute(issuer: Issuer, relative: dict[str, Any]) -> dict[str, Any]:
    """Make times absolute, and add the URL of the issuer to its path."""
    claims = {}
    for name, value in relative.items():
        if name in ("exp", "nbf", "iat") and type(value) in (int, float):
            value += time.time() if isinstance(value, float) else int(time.time())
        if name == "iss" and value in ("/", []):
            value = f"{issuer.url}/" if value else [issuer.url]
        claims[name] = value
    return claims


@pytest.mark.parametrize("name", GOOD)
def test_good_tokens(name: str, issuer: Issuer) -> None:
    assert verify(issuer, issuer.token(**absolute(issuer, GOOD[name]))) == JANE


@pytest.mark.parametrize("name", REJECTED)
def test_rejected_claims(name: str, issuer: Issuer) -> None:
    assert rejection(verify(issuer, issuer.token(**absolute(issuer, REJECTED[name])))) == BAD


def part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def with_header(issuer: Issuer, **header: Any) -> str:
    """Return a good token with other members in its header, signed by the right key."""
    payload = base64.urlsafe_b64decode(issuer.token().split(".")[1] + "==")
    known = {"x": HeaderParameter("a private member", "int")}
    registry = jws.JWSRegistry(header_registry=known, algorithms=ALGORITHMS, strict_check_header=False)
    merged = {"alg": "ES256", "kid": "first", **header}
    return jws.serialize_compact(merged, payload, issuer.keys["first"], registry=registry)


def algorithm_confusion(issuer: Issuer) -> str:
    """Return a token that is signed with the public key as a shared secret."""
    public = issuer.keys["first"].as_pem(private=False)
    payload = issuer.token().split(".")[1]
    signing = f"{part({'alg': 'HS256', 'kid': 'first'})}.{payload}".encode()
    return f"{signing.decode()}.{part(hmac.digest(public, signing, 'sha256'))}"


def unsigned(issuer: Issuer, algorithm: str) -> str:
    return f"{part({'alg': algorithm, 'kid': 'first'})}.{issuer.token().split('.')[1]}."


def forged(issuer: Issuer) -> str:
    """Return a good token whose subject was changed."""
    header, payload, signature = issuer.token(sub="joe").split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return f"{header}.{part({**claims, 'sub': 'jane'})}.{signature}"


OTHER_KEY = jwk.ECKey.generate_key("P-256")
FORGED: Mapping[str, Callable[[Issuer], str | bytes]] = {
    "signed by another key": lambda issuer: issuer.token(key=OTHER_KEY),
    "signed by a key in its own header": lambda issuer: issuer.token(key=OTHER_KEY).replace(
        issuer.token().split(".")[0],
        part({"alg": "ES256", "kid": "first", "jwk": OTHER_KEY.as_dict(private=False)}),
    ),
    "is not allowed: 'joe'": forged,
    "unsigned": lambda issuer: unsigned(issuer, "none"),
    "unsigned in another spelling": lambda issuer: unsigned(issuer, "None"),
    "no signature": lambda issuer: unsigned(issuer, "ES256"),
    "the public key as a secret": algorithm_confusion,
    "a signature of zeros": lambda issuer: unsigned(issuer, "ES256") + part(bytes(64)),
    "another curve": lambda issuer: issuer.token(key=KEYS["ES384"], algorithm="ES384"),
    "another kind of key": lambda issuer: issuer.token(key=RSA, algorithm="RS256"),
    "an unknown critical header": lambda issuer: with_header(issuer, crit=["x"], x=1),
    "a number as kid": lambda issuer: f"{part({'alg': 'ES256', 'kid': 1})}.{issuer.token().partition('.')[2]}",
    "a list as algorithm": lambda issuer: f"{part({'alg': ['ES256']})}.{issuer.token().partition('.')[2]}",
    "a list as header": lambda issuer: f"{part(['ES256'])}.{issuer.token().partition('.')[2]}",
    "a nested header": lambda issuer: f"{part(b'[' * 300)}.{issuer.token().partition('.')[2]}",
    "a list as claims": lambda issuer: jws.serialize_compact(
        {"alg": "ES256", "kid": "first"}, b"[]", issuer.keys["first"], ["ES256"]
    ),
    "nested claims": lambda issuer: jws.serialize_compact(
        {"alg": "ES256", "kid": "first"}, b"[" * 10_000, issuer.keys["first"], ["ES256"]
    ),
    "claims that are not JSON": lambda issuer: jws.serialize_compact(
        {"alg": "ES256", "kid": "first"}, b"jane", issuer.keys["first"], ["ES256"]
    ),
    "no token": lambda _: "jane",
    "dots": lambda _: "..",
    "five parts": lambda issuer: issuer.token() + "..",
    "not base64": lambda _: "!.!.!",
    "not ASCII": lambda _: b"\xff.\xff.\xff",
    "zeros": lambda _: b"\0" * 100,
    "a long header": lambda issuer: with_header(issuer).replace(".", "A" * 20_000 + ".", 1),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_and_broken_tokens(name: str, issuer: Issuer) -> None:
    async def run() -> None:
        verifier = Verifier(issuer)
        assert await verifier.verify(issuer.token()) == JANE  # the keys are fetched now
        assert rejection(await verifier.verify(FORGED[name](issuer))) == BAD

    asyncio.run(run())


def test_unknown_headers_are_ignored(issuer: Issuer) -> None:
    assert verify(issuer, with_header(issuer, nonce="x", typ="at+jwt")) == JANE


def test_subjects_must_be_equal(issuer: Issuer) -> None:
    account = "system:serviceaccount:kube-system:apiserver"
    assert verify(issuer, issuer.token(sub=account), "jane", account) == Client(user=account)
    for other in ("joe", "Jane", "jane ", f"{account}2", "system:serviceaccount:kube-system"):
        assert rejection(verify(issuer, issuer.token(sub=other), "jane", account)) == (403, "unlisted_subject")


# Keys.


def with_loop(test: Callable[[Issuer, Clock], Coroutine[Any, Any, None]]) -> Callable[[Issuer, Clock], None]:
    """Run a test on an event loop."""

    def run(issuer: Issuer, clock: Clock) -> None:
        asyncio.run(test(issuer, clock))

    return run


@with_loop
async def test_keys_are_fetched_for_the_first_token_and_kept(issuer: Issuer, clock: Clock) -> None:
    verifier = Verifier(issuer)
    token = issuer.token()
    assert verifier.verify_now(token) is None
    assert issuer.fetches == 0
    assert await verifier.verify(token) == JANE
    assert verifier.verify_now(token) == JANE
    assert verifier.verify_now(issuer.token(jti="another")) == JANE
    assert issuer.fetches == 1
    assert verifier.failures == 0


@with_loop
async def test_concurrent_requests_fetch_the_keys_once(issuer: Issuer, clock: Clock) -> None:
    verifier = Verifier(issuer)
    tokens = [issuer.token(jti=str(number)) for number in range(50)]
    assert set(await asyncio.gather(*map(verifier.verify, tokens))) == {JANE}
    assert issuer.fetches == 1


@with_loop
async def test_a_cancelled_request_does_not_cancel_the_fetch(issuer: Issuer, clock: Clock) -> None:
    verifier = Verifier(issuer)
    issuer.gate.clear()
    first, second = (asyncio.create_task(verifier.verify(issuer.token())) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    issuer.gate.set()
    assert await second == JANE
    assert issuer.fetches == 1


@with_loop
async def test_a_new_key_is_fetched_for_the_first_token(issuer: Issuer, clock: Clock) -> None:
    verifier = Verifier(issuer)
    assert await verifier.verify(issuer.token()) == JANE
    issuer.keys["second"] = jwk.RSAKey.generate_key(2048)
    clock.offset += MIN_FETCH_INTERVAL
    token = issuer.token("second", algorithm="RS256")
    assert verifier.verify_now(token) is None
    assert await verifier.verify(token) == JANE
    assert verifier.verify_now(issuer.token()) == JANE
    assert issuer.fetches == 2


@with_loop
async def test_the_keys_are_fetched_at_most_once_per_interval(issuer: Issuer, clock: Clock) -> None:
    verifier = Verifier(issuer)
    assert await verifier.verify(issuer.token()) == JANE
    for number in range(20):
        assert rejection(verifier.verify_now(issuer.token(f"invented-{number}", OTHER_KEY))) == BAD
    assert issuer.fetches == 1
    clock.offset += MIN_FETCH_INTERVAL
    assert rejection(await verifier.verify(issuer.token("invented", OTHER_KEY))) == BAD
    assert rejection(verifier.verify_now(issuer.token("another", OTHER_KEY))) == BAD
    assert issuer.fetches == 2


@with_loop
async def test_a_token_without_kid_is_rejected_if_there_are_several_keys(issuer: Issuer, clock: Clock) -> None:
    issuer.keys["second"] = jwk.ECKey.generate_key("P-256")
    assert rejection(await Verifier(issuer).verify(issuer.token(None))) == BAD


@with_loop
async def test_cached_tokens_are_verified_again(issuer: Issuer, clock: Clock) -> None:
    verifier = Verifier(issuer)
    token = issuer.token(exp=int(time.time()) + 3600)
    assert await verifier.verify(token) == JANE
    issuer.keys["first"], issuer.keys["second"] = OTHER_KEY, issuer.keys["first"]
    clock.offset += CACHE_TTL - 1
    assert verifier.verify_now(token) == JANE
    assert issuer.fetches == 1
    clock.offset += 2
    assert verifier.verify_now(token) == JANE  # with the old keys, while the new ones are fetched
    assert verifier.oidc._fetch is not None
    await verifier.oidc._fetch
    assert rejection(verifier.verify_now(token)) == BAD
    assert issuer.fetches == 2


@with_loop
async def test_cached_tokens_expire(issuer: Issuer, clock: Clock) -> None:
    verifier = Verifier(issuer)
    token = issuer.token(exp=int(time.time()) + 60)
    assert await verifier.verify(token) == JANE
    clock.offset += 50 + LEEWAY
    assert verifier.verify_now(token) == JANE
    clock.offset += 11
    assert rejection(verifier.verify_now(token)) == BAD


@with_loop
async def test_the_cache_is_bounded(issuer: Issuer, clock: Clock) -> None:
    verifier = Verifier(issuer)
    for number in range(oidc._MAX_CACHED_TOKENS + 10):
        verifier.oidc._cache_token(str(number).encode(), {"sub": "jane", "exp": time.time() + 60})
    assert len(verifier.oidc._cache) == oidc._MAX_CACHED_TOKENS
    assert b"9" not in verifier.oidc._cache
    assert b"10" in verifier.oidc._cache


@with_loop
async def test_the_cache_contains_only_hashes(issuer: Issuer, clock: Clock) -> None:
    verifier = Verifier(issuer)
    token = issuer.token()
    await verifier.verify(token)
    assert token.split(".")[2] not in repr(vars(verifier.oidc))


# The issuer is unavailable.


@with_loop
async def test_the_previous_keys_stay_in_use(issuer: Issuer, clock: Clock) -> None:
    verifier = Verifier(issuer)
    assert await verifier.verify(issuer.token()) == JANE
    issuer.unavailable = True
    for times in range(1, 4):
        clock.offset += CACHE_TTL + 1
        now = int(clock.time())
        token = issuer.token(jti=str(times), exp=int(time.time()) + 7200)
        assert verifier.verify_now(token) == JANE, now
        await verifier.oidc.refresh()
        assert verifier.failures == times
        assert verifier.verify_now(token) == JANE
    issuer.unavailable = False
    clock.offset += MIN_FETCH_INTERVAL
    assert rejection(await verifier.verify(issuer.token("invented", OTHER_KEY))) == BAD
    assert verifier.failures == 3


@with_loop
async def test_without_keys_every_token_is_rejected(issuer: Issuer, clock: Clock) -> None:
    verifier = Verifier(issuer)
    issuer.unavailable = True
    token = issuer.token()
    assert rejection(await verifier.verify(token)) == (503, "no_keys")
    assert rejection(verifier.verify_now(token)) == (503, "no_keys")
    assert issuer.fetches == 1
    issuer.unavailable = False
    clock.offset += MIN_FETCH_INTERVAL
    assert await verifier.verify(token) == JANE


CONFIGURATION = "/realm/.well-known/openid-configuration"
PUBLISHED: Mapping[str, tuple[Callable[[Issuer], Any], str]] = {
    "another issuer": (
        lambda issuer: metadata(f"{issuer.url}/", f"{issuer.url}/keys"),
        "the issuer in its own metadata is",
    ),
    "no issuer": (lambda issuer: metadata(None, f"{issuer.url}/keys"), "the issuer in its own metadata is None"),
    "keys without TLS": (
        lambda issuer: metadata(issuer.url, "http://127.0.0.1/keys"),
        "not an https URL: 'http://",
    ),
    "keys at a file": (lambda issuer: metadata(issuer.url, "file:///etc/passwd"), "not an https URL: 'file:"),
    "no jwks_uri": (lambda issuer: {CONFIGURATION: {"issuer": issuer.url}}, "KeyError: 'jwks_uri'"),
    "not JSON": (lambda _: {CONFIGURATION: b"<html>"}, "JSONDecodeError"),
    "not an object": (lambda _: {CONFIGURATION: b"[]"}, "TypeError"),
    "too large": (lambda _: {CONFIGURATION: b" " * 1024 * 1024 + b"{}"}, "more than 1048576 bytes"),
    "unavailable": (lambda _: {CONFIGURATION: None}, "503 Service Unavailable"),
    "no keys": (lambda _: {"/realm/keys": {"keys": []}}, "the issuer publishes no RSA or ECDSA keys"),
    "no member keys": (lambda _: {"/realm/keys": {}}, "KeyError: 'keys'"),
    "a shared secret": (
        lambda _: {"/realm/keys": {"keys": [{"kty": "oct", "kid": "first", "k": "AA"}]}},
        "the issuer publishes no RSA",
    ),
    "a small key": (lambda _: {"/realm/keys": {"keys": [small_key()]}}, "the issuer publishes no RSA or ECDSA keys"),
}


def metadata(url: str | None, keys: str) -> dict[str, Any]:
    return {CONFIGURATION: {"issuer": url, "jwks_uri": keys}}


def small_key() -> dict[str, Any]:
    """Return an RSA key that is too small."""
    numbers = rsa.generate_private_key(65537, 1024).public_key().public_numbers()
    return {"kty": "RSA", "kid": "first", "n": part(numbers.n.to_bytes(128, "big")), "e": "AQAB"}


@pytest.mark.filterwarnings("ignore:Key size")
@pytest.mark.parametrize("name", PUBLISHED)
def test_invalid_documents(name: str, issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    documents, message = PUBLISHED[name]
    issuer.documents = documents(issuer)
    verifier = Verifier(issuer)
    assert rejection(asyncio.run(verifier.verify(issuer.token()))) == (503, "no_keys")
    assert verifier.failures == 1
    [record] = caplog.records
    assert record.getMessage().startswith(f"the keys of {issuer.url} cannot be fetched")
    assert message in record.getMessage()


def test_unusable_keys_are_ignored(issuer: Issuer) -> None:
    good = issuer.published("/realm/keys")["keys"]
    bad: list[Any] = [
        {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA", "kid": "a"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "b"},
        {"kty": "RSA", "kid": "c"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "d"},
        {"kid": "e"},
        "f",
        None,
        {**good[0], "kid": "g", "use": "enc"},
    ]
    issuer.documents = {"/realm/keys": {"keys": bad + good}}
    assert verify(issuer, issuer.token()) == JANE
    issuer.documents = {"/realm/keys": {"keys": [{**good[0], "use": "enc"}]}}
    assert rejection(verify(issuer, issuer.token())) == BAD


def test_an_issuer_with_a_certificate_of_another_ca(
    issuer: Issuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = certificates.issue(tmp_path / "other", names=["127.0.0.1"]).ca
    assert rejection(asyncio.run(Verifier(issuer, ca=other).verify(issuer.token()))) == (503, "no_keys")
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
    assert issuer.requests == []


# On a real server.


def flags(issuer: Issuer) -> tuple[object, ...]:
    url = ("--oidc-issuer", issuer.url, "--oidc-ca", issuer.ca, "--oidc-audience", "webhooks")
    return (*url, "--oidc-subject", "jane", "--oidc-subject", "jim")


def test_without_keys_requests_get_503(issuer: Issuer, tmp_path: Path) -> None:
    issuer.unavailable = True
    with serving(tmp_path, *flags(issuer)) as server:
        for token, status in ((issuer.token(), 503), ("jane", 401)):
            reply = server.post("/admission/validate", review(), {**REVIEWS, "Authorization": f"Bearer {token}"})
            assert (reply.status, reply.closes) == (status, True)
            assert ("retry-after" in reply.headers) == (status == 503)
        server.errors.await_line("cannot be fetched")
        server.errors.await_line("have not been fetched yet")


def test_the_log_shows_the_subject(issuer: Issuer, tmp_path: Path) -> None:
    with serving(tmp_path, *flags(issuer)) as server, server.connect() as connection:
        good, bad = issuer.token(), issuer.token(sub="joe")
        for path in ("/admission/validate", "/authorize"):
            assert connection.post(path, b"{", {**REVIEWS, "Authorization": f"Bearer {good}"}).status == 400
        reply = connection.post("/admission/validate", review(), {**REVIEWS, "Authorization": f"Bearer {bad}"})
        assert (reply.status, reply.closes) == (403, True)
        server.errors.await_line("is not allowed: 'joe'")
        records = [record for record in server.logs() if record["logger"] == "webhooks.reviews"]
        assert [record["client"] for record in records] == ["jane", "jane"]
        assert good not in "".join(server.errors.lines)
    assert issuer.fetches == 1
