"""Tokens of an OpenID Connect issuer: which are taken, and what is known of its keys while it changes and goes away."""

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
    """The time as the module sees it, which tests let pass."""

    def __init__(self) -> None:
        self.passed = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.passed

    def time(self) -> float:
        return time.time() + self.passed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(oidc, "monotonic", clock.monotonic)
    monkeypatch.setattr(oidc, "time", clock.time)
    return clock


class Asking:
    """A server's side, and what it makes of tokens."""

    def __init__(self, issuer: Issuer, *subjects: str, ca: Path | None = None) -> None:
        self.meters = MetricRegistry()
        self.oidc = OidcIssuer(issuer.url, "webhooks", subjects or ("jane",), ca or issuer.ca, self.meters)
        self.oidc._claims._now = lambda: int(oidc.time())
        self.callers = Authenticator(self.meters, issuer=self.oidc)

    async def about(self, token: str | bytes) -> Authentication:
        token = token if isinstance(token, bytes) else token.encode()
        return await self.callers.authenticate_request_async(ANONYMOUS, b"Bearer " + token)

    def at_once(self, token: str) -> Authentication | None:
        return self.callers.authenticate_request(ANONYMOUS, f"Bearer {token}".encode())

    @property
    def failures(self) -> float:
        return self.meters.by_name["webhooks_oidc_key_failures"].values.get((), 0.0)  # type: ignore[return-value]


def about(issuer: Issuer, token: str | bytes, *subjects: str) -> Authentication:
    return asyncio.run(Asking(issuer, *subjects).about(token))


def refused(met: Authentication | None) -> tuple[int, str]:
    assert isinstance(met, Rejection)
    return met.code, met.reason


JANE = Client(user="jane")
BAD = (401, "bad_token")


# Tokens.


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm(algorithm: str, issuer: Issuer) -> None:
    issuer.keys["first"] = KEYS[algorithm]
    assert about(issuer, issuer.token(algorithm=algorithm)) == JANE


NOW = 0  # seconds from now, in the claims below
GOOD: Mapping[str, dict[str, Any]] = {
    "as usual": {},
    "one audience": {"aud": "webhooks"},
    "several audiences": {"aud": ["other", "webhooks"]},
    "neither iat nor nbf": {"iat": ..., "nbf": ...},
    "fractions of seconds": {"exp": 600.5, "iat": -0.5},
    "ended just now": {"exp": NOW - LEEWAY + 8},
    "begins in a moment": {"nbf": NOW + LEEWAY - 3, "iat": NOW + LEEWAY - 3},
    "more claims": {"groups": ["a"], "email": "jane@example.org", "kubernetes.io": {"namespace": "default"}},
    "no kid, and one key": {"kid": None},
}
REFUSED: Mapping[str, dict[str, Any]] = {
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
    "no end": {"exp": ...},
    "a text as end": {"exp": "600"},
    "true as end": {"exp": True},
    "NaN as end": {"exp": float("nan")},
    "no end in sight": {"exp": float("inf")},
    "not yet valid": {"nbf": NOW + LEEWAY + 30},
    "issued in the future": {"iat": NOW + LEEWAY + 30},
    "a text as begin": {"nbf": "0"},
}


def claims_of(issuer: Issuer, given: dict[str, Any]) -> dict[str, Any]:
    """Claims with times that count from now, and the issuer before its own path."""
    claims = {}
    for name, value in given.items():
        if name in ("exp", "nbf", "iat") and type(value) in (int, float):
            value += time.time() if isinstance(value, float) else int(time.time())
        if name == "iss" and value in ("/", []):
            value = f"{issuer.url}/" if value else [issuer.url]
        claims[name] = value
    return claims


@pytest.mark.parametrize("name", GOOD)
def test_good_tokens(name: str, issuer: Issuer) -> None:
    assert about(issuer, issuer.token(**claims_of(issuer, GOOD[name]))) == JANE


@pytest.mark.parametrize("name", REFUSED)
def test_claims_that_are_not_taken(name: str, issuer: Issuer) -> None:
    assert refused(about(issuer, issuer.token(**claims_of(issuer, REFUSED[name])))) == BAD


def part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def with_header(issuer: Issuer, **header: Any) -> str:
    """A good token with more or other things in its header, signed by the right key all the same."""
    payload = base64.urlsafe_b64decode(issuer.token().split(".")[1] + "==")
    known = {"x": HeaderParameter("what only its sender knows", "int")}
    registry = jws.JWSRegistry(header_registry=known, algorithms=ALGORITHMS, strict_check_header=False)
    said = {"alg": "ES256", "kid": "first", **header}
    return jws.serialize_compact(said, payload, issuer.keys["first"], registry=registry)


def confused(issuer: Issuer) -> str:
    """Signed by a shared secret, which is the public key that everybody can have."""
    public = issuer.keys["first"].as_pem(private=False)
    payload = issuer.token().split(".")[1]
    signing = f"{part({'alg': 'HS256', 'kid': 'first'})}.{payload}".encode()
    return f"{signing.decode()}.{part(hmac.digest(public, signing, 'sha256'))}"


def unsigned(issuer: Issuer, algorithm: str) -> str:
    return f"{part({'alg': algorithm, 'kid': 'first'})}.{issuer.token().split('.')[1]}."


def forged(issuer: Issuer) -> str:
    """A good token with another subject in it."""
    header, payload, signature = issuer.token(sub="joe").split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return f"{header}.{part({**claims, 'sub': 'jane'})}.{signature}"


STRANGER = jwk.ECKey.generate_key("P-256")
FORGED: Mapping[str, Callable[[Issuer], str | bytes]] = {
    "signed by another key": lambda issuer: issuer.token(key=STRANGER),
    "signed by a key that it brings along": lambda issuer: issuer.token(key=STRANGER).replace(
        issuer.token().split(".")[0],
        part({"alg": "ES256", "kid": "first", "jwk": STRANGER.as_dict(private=False)}),
    ),
    "is not allowed: 'joe'": forged,
    "unsigned": lambda issuer: unsigned(issuer, "none"),
    "unsigned in another spelling": lambda issuer: unsigned(issuer, "None"),
    "no signature": lambda issuer: unsigned(issuer, "ES256"),
    "the public key as a secret": confused,
    "a signature of zeros": lambda issuer: unsigned(issuer, "ES256") + part(bytes(64)),
    "another curve": lambda issuer: issuer.token(key=KEYS["ES384"], algorithm="ES384"),
    "another kind of key": lambda issuer: issuer.token(key=RSA, algorithm="RS256"),
    "a critical header that is not known": lambda issuer: with_header(issuer, crit=["x"], x=1),
    "a number as kid": lambda issuer: f"{part({'alg': 'ES256', 'kid': 1})}.{issuer.token().partition('.')[2]}",
    "a list as algorithm": lambda issuer: f"{part({'alg': ['ES256']})}.{issuer.token().partition('.')[2]}",
    "a header that is no mapping": lambda issuer: f"{part(['ES256'])}.{issuer.token().partition('.')[2]}",
    "a header that is nested": lambda issuer: f"{part(b'[' * 300)}.{issuer.token().partition('.')[2]}",
    "claims that are no mapping": lambda issuer: jws.serialize_compact(
        {"alg": "ES256", "kid": "first"}, b"[]", issuer.keys["first"], ["ES256"]
    ),
    "claims that are nested": lambda issuer: jws.serialize_compact(
        {"alg": "ES256", "kid": "first"}, b"[" * 10_000, issuer.keys["first"], ["ES256"]
    ),
    "claims that are no JSON": lambda issuer: jws.serialize_compact(
        {"alg": "ES256", "kid": "first"}, b"jane", issuer.keys["first"], ["ES256"]
    ),
    "no token": lambda _: "jane",
    "dots": lambda _: "..",
    "five parts": lambda issuer: issuer.token() + "..",
    "no base64": lambda _: "!.!.!",
    "no text": lambda _: b"\xff.\xff.\xff",
    "zeros": lambda _: b"\0" * 100,
    "a long header": lambda issuer: with_header(issuer).replace(".", "A" * 20_000 + ".", 1),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_and_broken_tokens(name: str, issuer: Issuer) -> None:
    async def ask() -> None:
        asking = Asking(issuer)
        assert await asking.about(issuer.token()) == JANE  # so the keys are known
        assert refused(await asking.about(FORGED[name](issuer))) == BAD

    asyncio.run(ask())


def test_headers_that_mean_nothing_are_passed_over(issuer: Issuer) -> None:
    assert about(issuer, with_header(issuer, nonce="x", typ="at+jwt")) == JANE


def test_subjects_are_exact(issuer: Issuer) -> None:
    account = "system:serviceaccount:kube-system:apiserver"
    assert about(issuer, issuer.token(sub=account), "jane", account) == Client(user=account)
    for other in ("joe", "Jane", "jane ", f"{account}2", "system:serviceaccount:kube-system"):
        assert refused(about(issuer, issuer.token(sub=other), "jane", account)) == (403, "unlisted_subject")


# Keys.


def running(test: Callable[[Issuer, Clock], Coroutine[Any, Any, None]]) -> Callable[[Issuer, Clock], None]:
    """A test on a loop."""

    def run(issuer: Issuer, clock: Clock) -> None:
        asyncio.run(test(issuer, clock))

    return run


@running
async def test_keys_are_fetched_for_the_first_token_and_kept(issuer: Issuer, clock: Clock) -> None:
    asking = Asking(issuer)
    token = issuer.token()
    assert asking.at_once(token) is None
    assert issuer.fetches == 0
    assert await asking.about(token) == JANE
    assert asking.at_once(token) == JANE
    assert asking.at_once(issuer.token(jti="another")) == JANE
    assert issuer.fetches == 1
    assert asking.failures == 0


@running
async def test_many_at_once_fetch_the_keys_once(issuer: Issuer, clock: Clock) -> None:
    asking = Asking(issuer)
    tokens = [issuer.token(jti=str(number)) for number in range(50)]
    assert set(await asyncio.gather(*map(asking.about, tokens))) == {JANE}
    assert issuer.fetches == 1


@running
async def test_one_that_goes_away_does_not_stop_the_others(issuer: Issuer, clock: Clock) -> None:
    asking = Asking(issuer)
    issuer.gate.clear()
    first, second = (asyncio.create_task(asking.about(issuer.token())) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    issuer.gate.set()
    assert await second == JANE
    assert issuer.fetches == 1


@running
async def test_a_new_key_is_fetched_when_a_token_names_it(issuer: Issuer, clock: Clock) -> None:
    asking = Asking(issuer)
    assert await asking.about(issuer.token()) == JANE
    issuer.keys["second"] = jwk.RSAKey.generate_key(2048)
    clock.passed += MIN_FETCH_INTERVAL
    token = issuer.token("second", algorithm="RS256")
    assert asking.at_once(token) is None
    assert await asking.about(token) == JANE
    assert asking.at_once(issuer.token()) == JANE
    assert issuer.fetches == 2


@running
async def test_keys_are_not_fetched_more_often_than_that(issuer: Issuer, clock: Clock) -> None:
    asking = Asking(issuer)
    assert await asking.about(issuer.token()) == JANE
    for number in range(20):
        assert refused(asking.at_once(issuer.token(f"invented-{number}", STRANGER))) == BAD
    assert issuer.fetches == 1
    clock.passed += MIN_FETCH_INTERVAL
    assert refused(await asking.about(issuer.token("invented", STRANGER))) == BAD
    assert refused(asking.at_once(issuer.token("another", STRANGER))) == BAD
    assert issuer.fetches == 2


@running
async def test_without_a_kid_one_of_several_keys_is_not_chosen(issuer: Issuer, clock: Clock) -> None:
    issuer.keys["second"] = jwk.ECKey.generate_key("P-256")
    assert refused(await Asking(issuer).about(issuer.token(None))) == BAD


@running
async def test_known_tokens_are_looked_at_again_after_a_while(issuer: Issuer, clock: Clock) -> None:
    asking = Asking(issuer)
    token = issuer.token(exp=int(time.time()) + 3600)
    assert await asking.about(token) == JANE
    issuer.keys["first"], issuer.keys["second"] = STRANGER, issuer.keys["first"]
    clock.passed += CACHE_TTL - 1
    assert asking.at_once(token) == JANE
    assert issuer.fetches == 1
    clock.passed += 2
    assert asking.at_once(token) == JANE  # by the old keys, while the new ones are fetched beside
    assert asking.oidc._fetch is not None
    await asking.oidc._fetch
    assert refused(asking.at_once(token)) == BAD
    assert issuer.fetches == 2


@running
async def test_known_tokens_end(issuer: Issuer, clock: Clock) -> None:
    asking = Asking(issuer)
    token = issuer.token(exp=int(time.time()) + 60)
    assert await asking.about(token) == JANE
    clock.passed += 50 + LEEWAY
    assert asking.at_once(token) == JANE
    clock.passed += 11
    assert refused(asking.at_once(token)) == BAD


@running
async def test_only_so_many_tokens_are_known_at_once(issuer: Issuer, clock: Clock) -> None:
    asking = Asking(issuer)
    for number in range(oidc._MAX_CACHED_TOKENS + 10):
        asking.oidc._remember(str(number).encode(), {"sub": "jane", "exp": time.time() + 60})
    assert len(asking.oidc._cache) == oidc._MAX_CACHED_TOKENS
    assert b"9" not in asking.oidc._cache
    assert b"10" in asking.oidc._cache


@running
async def test_tokens_are_known_by_their_hashes_alone(issuer: Issuer, clock: Clock) -> None:
    asking = Asking(issuer)
    token = issuer.token()
    await asking.about(token)
    assert token.split(".")[2] not in repr(vars(asking.oidc))


# The issuer is away.


@running
async def test_while_the_issuer_is_away_its_keys_are_used_on(issuer: Issuer, clock: Clock) -> None:
    asking = Asking(issuer)
    assert await asking.about(issuer.token()) == JANE
    issuer.away = True
    for times in range(1, 4):
        clock.passed += CACHE_TTL + 1
        now = int(clock.time())
        token = issuer.token(jti=str(times), exp=int(time.time()) + 7200)
        assert asking.at_once(token) == JANE, now
        await asking.oidc.refresh()
        assert asking.failures == times
        assert asking.at_once(token) == JANE
    issuer.away = False
    clock.passed += MIN_FETCH_INTERVAL
    assert refused(await asking.about(issuer.token("invented", STRANGER))) == BAD
    assert asking.failures == 3


@running
async def test_before_the_issuer_was_there_it_cannot_be_told_who_calls(issuer: Issuer, clock: Clock) -> None:
    asking = Asking(issuer)
    issuer.away = True
    token = issuer.token()
    assert refused(await asking.about(token)) == (503, "no_keys")
    assert refused(asking.at_once(token)) == (503, "no_keys")
    assert issuer.fetches == 1
    issuer.away = False
    clock.passed += MIN_FETCH_INTERVAL
    assert await asking.about(token) == JANE


CONFIGURATION = "/realm/.well-known/openid-configuration"
PUBLISHED: Mapping[str, tuple[Callable[[Issuer], Any], str]] = {
    "another issuer": (
        lambda issuer: about_itself(f"{issuer.url}/", f"{issuer.url}/keys"),
        "the issuer in its own metadata is",
    ),
    "no issuer": (lambda issuer: about_itself(None, f"{issuer.url}/keys"), "the issuer in its own metadata is None"),
    "keys without TLS": (
        lambda issuer: about_itself(issuer.url, "http://127.0.0.1/keys"),
        "not an https URL: 'http://",
    ),
    "keys at a file": (lambda issuer: about_itself(issuer.url, "file:///etc/passwd"), "not an https URL: 'file:"),
    "no place of keys": (lambda issuer: {CONFIGURATION: {"issuer": issuer.url}}, "KeyError: 'jwks_uri'"),
    "no JSON": (lambda _: {CONFIGURATION: b"<html>"}, "JSONDecodeError"),
    "no mapping": (lambda _: {CONFIGURATION: b"[]"}, "TypeError"),
    "too much": (lambda _: {CONFIGURATION: b" " * 1024 * 1024 + b"{}"}, "more than 1048576 bytes"),
    "elsewhere": (lambda _: {CONFIGURATION: None}, "503 Service Unavailable"),
    "no keys": (lambda _: {"/realm/keys": {"keys": []}}, "the issuer publishes no RSA or ECDSA keys"),
    "no list of keys": (lambda _: {"/realm/keys": {}}, "KeyError: 'keys'"),
    "a shared secret": (
        lambda _: {"/realm/keys": {"keys": [{"kty": "oct", "kid": "first", "k": "AA"}]}},
        "the issuer publishes no RSA",
    ),
    "a small key": (lambda _: {"/realm/keys": {"keys": [small_key()]}}, "the issuer publishes no RSA or ECDSA keys"),
}


def about_itself(url: str | None, keys: str) -> dict[str, Any]:
    return {CONFIGURATION: {"issuer": url, "jwks_uri": keys}}


def small_key() -> dict[str, Any]:
    """An RSA key that is too small to be of worth."""
    numbers = rsa.generate_private_key(65537, 1024).public_key().public_numbers()
    return {"kty": "RSA", "kid": "first", "n": part(numbers.n.to_bytes(128, "big")), "e": "AQAB"}


@pytest.mark.filterwarnings("ignore:Key size")
@pytest.mark.parametrize("name", PUBLISHED)
def test_what_it_publishes_is_not_taken(name: str, issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    documents, says = PUBLISHED[name]
    issuer.documents = documents(issuer)
    asking = Asking(issuer)
    assert refused(asyncio.run(asking.about(issuer.token()))) == (503, "no_keys")
    assert asking.failures == 1
    [record] = caplog.records
    assert record.getMessage().startswith(f"the keys of {issuer.url} cannot be fetched")
    assert says in record.getMessage()


def test_keys_that_are_no_good_do_not_harm_the_others(issuer: Issuer) -> None:
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
    assert about(issuer, issuer.token()) == JANE
    issuer.documents = {"/realm/keys": {"keys": [{**good[0], "use": "enc"}]}}
    assert refused(about(issuer, issuer.token())) == BAD


def test_an_issuer_whose_certificate_another_authority_signed(
    issuer: Issuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = certificates.issue(tmp_path / "other", names=["127.0.0.1"]).ca
    assert refused(asyncio.run(Asking(issuer, ca=other).about(issuer.token()))) == (503, "no_keys")
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
    assert issuer.asked == []


# On a real server.


def options(issuer: Issuer) -> tuple[object, ...]:
    given = ("--oidc-issuer", issuer.url, "--oidc-ca", issuer.ca, "--oidc-audience", "webhooks")
    return (*given, "--oidc-subject", "jane", "--oidc-subject", "jim")


def test_before_the_issuer_was_there_nobody_is_heard_on_a_real_server(issuer: Issuer, tmp_path: Path) -> None:
    issuer.away = True
    with serving(tmp_path, *options(issuer)) as server:
        for token, status in ((issuer.token(), 503), ("jane", 401)):
            reply = server.post("/admission/validate", review(), {**REVIEWS, "Authorization": f"Bearer {token}"})
            assert (reply.status, reply.closes) == (status, True)
            assert ("retry-after" in reply.headers) == (status == 503)
        server.errors.await_line("cannot be fetched")
        server.errors.await_line("have not been fetched yet")


def test_the_caller_of_a_token_is_in_the_log(issuer: Issuer, tmp_path: Path) -> None:
    with serving(tmp_path, *options(issuer)) as server, server.connect() as connection:
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
