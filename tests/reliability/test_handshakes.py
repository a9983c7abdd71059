"""Client authentication by certificates and tokens, and TLS versions and ciphers."""

import ssl
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from ..server.test_tls import AEAD, rsa_secret
from ..support.clients import (
    ALLOWED_NAMES,
    ALLOWED_REVIEW,
    LISTED,
    TLS_ERRORS,
    UNLISTED,
    VALIDATE,
    client_tls,
    metric_samples,
    post_review,
)
from ..support.identities import CLIENT, DAY, Identity, identity
from ..support.mounts import Mount, secret
from ..support.servers import Connection, Server, client_context, review, serving
from .figures import Figure

HANDSHAKE, ALERT = b"\x16", b"\x15"  # kinds of records
ALL = "ALL:COMPLEMENTOFALL:@SECLEVEL=0"


# Certificates.


def asked(server: Server) -> float:
    """Return the number of policy calls."""
    return sum(metric_samples(server, "webhooks_policy_duration_seconds_count").values())


def through(folder: Path, leaf: Identity, *chain: Identity) -> Identity:
    """Return a client that presents a chain."""
    file = folder / f"chain-{leaf.certificate.serial_number:x}.pem"
    file.write_bytes(b"".join(each.files[0].read_bytes() for each in (leaf, *chain)))
    return Identity(leaf.certificate, leaf.key, (file, leaf.files[1]))


def forged(folder: Path, good: Identity) -> Identity:
    """Return a client with a signed certificate in which the name was replaced by an allowed one."""
    encoded = ssl.PEM_cert_to_DER_cert(good.files[0].read_text()).replace(b"nobody", b"listed")
    file = folder / "forged.pem"
    file.write_text(ssl.DER_cert_to_PEM_cert(encoded))
    return Identity(good.certificate, good.key, (file, good.files[1]))


def heard(folder: Path, ca: Identity) -> Iterator[tuple[str, Identity]]:
    """Yield clients that are allowed."""
    for name, given in LISTED.items():
        yield name, identity(folder, signer=ca, **given)
    intermediate = identity(folder, "intermediate", ca, is_ca=True)
    yield "through an intermediate CA", through(folder, identity(folder, "listed", intermediate), intermediate)


def strangers(folder: Path, ca: Identity) -> Iterator[tuple[str, Identity]]:
    """Yield clients that are not allowed."""
    other, listed = identity(folder, "callers", is_ca=True), identity(folder, "listed", ca)
    signers: Mapping[str | None, Identity | None] = {"other": other, "listed": listed, None: None}
    for name, (given, _) in UNLISTED.items():
        signer = signers[given["signer"]] if "signer" in given else ca
        yield name, identity(folder, **{**given, "signer": signer})
    outside = identity(folder, "intermediate", other, is_ca=True)
    ended = identity(folder, "intermediate", ca, is_ca=True, not_before=-2 * DAY, not_after=-DAY)
    yield "the CA itself", ca
    yield "another CA with the same name", other
    yield "signed by a client that presents it", through(folder, identity(folder, "listed", listed), listed)
    yield "through an intermediate of another CA", through(folder, identity(folder, "listed", outside), outside)
    yield (
        "through another CA, with ours in the chain",
        through(folder, identity(folder, "listed", outside), outside, ca),
    )
    yield "through an expired intermediate", through(folder, identity(folder, "listed", ended), ended)
    yield (
        "through an intermediate that is not presented",
        identity(folder, "listed", identity(folder, "intermediate", ca, is_ca=True)),
    )
    yield "forged", forged(folder, identity(folder, "nobody", ca))
    yield "a longer name", identity(folder, "listed, Inc.", ca, usages=[CLIENT])


def test_item_21_certificates(tmp_path: Path, figure: Figure) -> None:
    ca = identity(tmp_path, "callers", is_ca=True)
    options = ("--client-ca", ca.files[0], *(part for name in ALLOWED_NAMES for part in ("--allow-client", name)))
    paths = (VALIDATE, "/admission/mutate", "/authorize", "/authenticate", "/images", "/audit", "/docs", "/metrics")
    with serving(tmp_path, *options) as server:
        refused, let_in = 0, []
        tried = list(strangers(tmp_path, ca))
        for name, stranger in tried:
            replies = [post_review(server, client_tls(server, stranger), path) for path in paths]
            if all(reply is None or (reply.status == 403 and reply.closes) for reply in replies):
                refused += 1
            else:
                let_in.append(name)
        trusting = client_context(server.folder / "certs" / "ca.pem")
        old = client_tls(server, identity(tmp_path, "listed", ca))
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert [post_review(server, context) for context in (trusting, old)] == [None, None]
        assert answered(server, b"POST /admission/validate HTTP/1.1\r\n\r\n") in (b"", ALERT)  # without TLS
        asked_by_strangers = asked(server)
        clients = list(heard(tmp_path, ca))
        answers = [post_review(server, client_tls(server, client)) for _, client in clients]
        asked_by_callers = asked(server)
    allowed = sum(reply is not None and reply.json()["response"]["allowed"] is True for reply in answers)
    figure(
        21,
        "clients with certificates",
        f"{refused + 3} of {len(tried) + 3} unknown clients rejected, which reached {asked_by_strangers:.0f} policies; "
        f"{allowed} of {len(clients)} allowed clients accepted",
        "no unknown client reaches a policy",
    )
    assert let_in == []
    assert asked_by_strangers == 0
    assert allowed == len(clients)
    assert asked_by_callers >= len(clients)


def test_item_21_tokens(tmp_path: Path, figure: Figure) -> None:
    (tmp_path / "tokens.csv").write_text("good-token,jane\n")
    bad = ["", "Bearer", "Bearer bad-token", "Bearer good-toke", "Bearer good-token,", "Basic good-token", "good-token"]
    with serving(tmp_path, "--token-file", tmp_path / "tokens.csv") as server:
        codes = []
        for shown_ in bad:
            headers = {"Content-Type": "application/json"} | ({"Authorization": shown_} if shown_ else {})
            codes += [
                server.post(path, ALLOWED_REVIEW, headers).status
                for path in (VALIDATE, "/authorize", "/docs", "/metrics")
            ]
        reached = asked(server)
        good = {"Content-Type": "application/json", "Authorization": "Bearer good-token"}
        assert server.post(VALIDATE, review(), good).json()["response"]["allowed"] is True
        assert asked(server) > reached
    figure(
        21,
        "clients with tokens",
        f"{codes.count(401)} of {len(codes)} bad tokens rejected, which reached {reached:.0f} policies",
        "no such client reaches a policy",
    )
    assert set(codes) == {401}
    assert reached == 0


# Versions and ciphers.


def offering(version: ssl.TLSVersion, ciphers: str = ALL) -> ssl.SSLContext:
    """Return the context of a client that offers only these, and accepts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers(ciphers)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = context.maximum_version = version
    return context


def hello(context: ssl.SSLContext) -> bytes:
    """Return the first message of a client; an alert if it has nothing to offer."""
    down, up = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLError):
        context.wrap_bio(down, up).do_handshake()
    return up.read()


def offered(context: ssl.SSLContext) -> tuple[int, set[int]]:
    """Return the version and the ciphers in the first message of a client (RFC 5246, 7.4.1.2)."""
    sent = hello(context)
    if not sent.startswith(HANDSHAKE):
        return 0, set()
    at = 44 + sent[43]  # after the session ID
    end = at + 2 + int.from_bytes(sent[at : at + 2])
    return int.from_bytes(sent[9:11]), {int.from_bytes(sent[each : each + 2]) for each in range(at + 2, end, 2)}


def spoken(server: Server, context: ssl.SSLContext) -> str | None:
    """Return the cipher that a server and a client negotiate; None if the server rejects all."""
    try:
        with server.connect(context) as connection:
            cipher = connection.socket.cipher()  # type: ignore[union-attr]
            return cipher and cipher[0]
    except TLS_ERRORS:
        return None


def weak() -> Iterator[str]:
    """Yield all weak ciphers before TLS 1.3 that a client on this machine can offer."""
    for cipher in offering(ssl.TLSVersion.TLSv1_2).get_ciphers():
        alone = (
            offering(ssl.TLSVersion.TLSv1_2, f"{cipher['name']}:@SECLEVEL=0") if "TLS_" not in cipher["name"] else None
        )
        if alone and cipher["name"] not in AEAD and cipher["id"] & 0xFFFF in offered(alone)[1]:
            yield cipher["name"]


@pytest.mark.parametrize("kind", ["ECDSA", "RSA"])
def test_item_22_versions_and_ciphers(kind: str, tmp_path: Path, figure: Figure) -> None:
    mount = Mount(tmp_path / "mount", secret() if kind == "ECDSA" else rsa_secret()).folder
    ciphers, old = list(weak()), (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)
    for version, number in zip(old, (0x0301, 0x0302), strict=True):
        said, suites = offered(offering(version))
        assert (said, len(suites) > 10) == (number, True), "the caller offers that version"
    with serving(tmp_path, "--tls-cert", mount / "tls.crt", "--tls-key", mount / "tls.key") as server:
        taken = [version.name for version in old if spoken(server, offering(version)) is not None]
        taken += [name for name in ciphers if spoken(server, offering(ssl.TLSVersion.TLSv1_2, f"{name}:@SECLEVEL=0"))]
        taken += ["SSL 3.0"] if answered(server, old_hello()) == HANDSHAKE else []
        good = {name for name in AEAD if spoken(server, offering(ssl.TLSVersion.TLSv1_2, name))}
        understood = answered(server, hello(offering(ssl.TLSVersion.TLSv1_2)))
        newest = spoken(server, offering(ssl.TLSVersion.TLSv1_3))
    figure(
        22,
        f"SSL 3.0, TLS 1.0 and 1.1, and {len(ciphers)} weak ciphers of TLS 1.2, with an {kind} certificate",
        f"{len(taken)} accepted",
        "none",
    )
    assert understood == HANDSHAKE
    assert len(ciphers) > 50
    assert taken == []
    assert good == {name for name in AEAD if kind in name}
    assert newest is not None


def old_hello() -> bytes:
    """Return a first message of SSL 3.0, made of one of TLS 1.0: clients no longer support it."""
    sent = hello(offering(ssl.TLSVersion.TLSv1))
    return sent[:1] + b"\x03\x00" + sent[3:9] + b"\x03\x00" + sent[11:]


def answered(server: Server, sent: bytes) -> bytes:
    """Send bytes without a handshake, and return the type of the record in response; empty if the server closes."""
    with suppress(ConnectionResetError), Connection(server.port, None) as connection:
        connection.send(sent)
        return connection.socket.recv(1)
    return b""
