"""Pairs are issued, kept where they are good, and never in the place of what is somebody else's."""

import os
import ssl
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from shutil import copytree

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from webhooks import certificates
from webhooks.certificates import ServingPair, default_names, ensure, issue, issue_client
from webhooks.errors import ConfigurationError

NAMES = ["localhost", "127.0.0.1", "::1", "webhooks.default.svc"]
FILES = ["ca-key.pem", "ca.pem", "tls-key.pem", "tls.pem"]


@pytest.fixture(scope="session")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("parent") / "certs"
    issue(directory, names=NAMES)
    return directory


@pytest.fixture
def directory(issued: Path, tmp_path: Path) -> Path:
    return copytree(issued, tmp_path / "certs")


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def changed(before: dict[str, bytes], directory: Path) -> set[str]:
    after = contents(directory)
    return {name for name in before | after if before.get(name) != after.get(name)}


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    calling = client.wrap_bio(down, up, server_hostname=name)
    serving = server.wrap_bio(up, down, server_side=True)
    for side in (calling, serving, calling, serving):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def contexts(pair: ServingPair) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.certificate, pair.key)
    return server, ssl.create_default_context(cafile=str(pair.ca))


def test_the_files(issued: Path) -> None:
    assert sorted(os.listdir(issued)) == FILES
    assert stat.S_IMODE(issued.stat().st_mode) == 0o700
    modes = {name: stat.S_IMODE((issued / name).stat().st_mode) for name in FILES}
    assert modes["ca-key.pem"] == modes["tls-key.pem"] == 0o600
    assert ensure(issued, names=NAMES) == ServingPair(issued / "ca.pem", issued / "tls.pem", issued / "tls-key.pem")


def test_the_serving_certificate(issued: Path) -> None:
    certificate, authority = read(issued / "tls.pem"), read(issued / "ca.pem")
    extensions = certificate.extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "webhooks.default.svc"]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1"), ip_address("::1")]
    assert usage.critical
    assert usage.value.digital_signature
    assert not usage.value.key_cert_sign
    assert constraints.critical
    assert not constraints.value.ca
    purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]
    key_identifier = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    subject_identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert key_identifier == subject_identifier.digest
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert certificate.serial_number != authority.serial_number
    lasting(certificate, timedelta(days=365))


def test_the_authority(issued: Path) -> None:
    authority = read(issued / "ca.pem")
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = authority.extensions.get_extension_for_class(x509.KeyUsage)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=1)
    assert usage.critical
    assert usage.value.key_cert_sign
    lasting(authority, timedelta(days=3650))


def lasting(certificate: x509.Certificate, life: timedelta) -> None:
    now, minute = datetime.now(UTC), timedelta(minutes=1)
    assert abs(certificate.not_valid_before_utc - (now - timedelta(hours=1))) < minute
    assert abs(certificate.not_valid_after_utc - (now + life)) < minute


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_trusts_the_authority_accepts_the_server(issued: Path, name: str) -> None:
    server, client = contexts(ensure(issued, names=NAMES))
    shake_hands(server, client, name)


def test_a_client_accepts_no_other_name(issued: Path) -> None:
    server, client = contexts(ensure(issued, names=NAMES))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(server, client, "example.org")


@pytest.mark.parametrize("names", [NAMES, NAMES[:1], ["LOCALHOST"], ["0:0:0:0:0:0:0:1", "::1"]])
def test_a_good_pair_is_kept(directory: Path, names: list[str]) -> None:
    before = contents(directory)
    ensure(directory, names=names)
    assert changed(before, directory) == set()


def test_a_good_pair_is_found_without_the_library_that_makes_them(issued: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from webhooks.certificates import ensure\n"
        "ensure(Path(sys.argv[1]), names=['localhost']); sys.exit('cryptography' in sys.modules)"
    )
    root = Path(certificates.__file__).parents[1]
    subprocess.run([sys.executable, "-c", program, str(issued)], check=True, cwd=root, timeout=30)


def add_name(directory: Path) -> list[str]:
    return [*NAMES, "other.example.org"]


def swap_key(directory: Path) -> list[str]:
    issue_client(directory, "other")
    (directory / "other-key.pem").replace(directory / "tls-key.pem")
    (directory / "other.pem").unlink()
    return NAMES


def lose(name: str):
    def losing(directory: Path) -> list[str]:
        (directory / name).unlink()
        return NAMES

    losing.__name__ = f"lose_{name}"
    return losing


def due(directory: Path) -> list[str]:
    issue(directory, names=NAMES, now=datetime.now(UTC) - timedelta(days=244))
    return NAMES


def ended(directory: Path) -> list[str]:
    issue(directory, names=NAMES, now=datetime.now(UTC) - timedelta(days=366))
    return NAMES


def foreign_authority(directory: Path) -> list[str]:
    other = directory.parent / "other"
    issue(other, names=NAMES)
    for name in ("ca.pem", "ca-key.pem"):
        (other / name).replace(directory / name)
    return NAMES


SERVING = {"tls.pem", "tls-key.pem"}


@pytest.mark.parametrize(
    ("spoil", "replaced"),
    [
        (add_name, SERVING),
        (swap_key, SERVING),
        (lose("tls-key.pem"), SERVING),
        (due, SERVING),
        (ended, SERVING),
        (foreign_authority, SERVING),
    ],
)
def test_what_is_no_good_is_replaced(directory: Path, spoil, replaced: set[str]) -> None:
    names = spoil(directory)
    before = contents(directory)
    pair = ensure(directory, names=names)
    assert changed(before, directory) == replaced
    server, client = contexts(pair)
    shake_hands(server, client, names[-1])
    assert ensure(directory, names=names) == pair
    assert changed(before, directory) == replaced


def test_a_new_pair_is_for_the_names_of_the_one_before(directory: Path) -> None:
    """What somebody issued for a Service is not made useless by a server that starts with other names."""
    issue(directory, names=["webhooks.default.svc", "10.0.0.5"])
    ensure(directory, names=["other.example.org"])
    assert names_in(directory) == ["webhooks.default.svc", "other.example.org", "10.0.0.5"]


def test_the_first_pair_is_for_this_host_too(tmp_path: Path) -> None:
    ensure(tmp_path, names=["192.0.2.1"])
    assert set(names_in(tmp_path)) == {*default_names(), "192.0.2.1"}


def names_in(directory: Path) -> list[str]:
    names = read(directory / "tls.pem").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def somebody_elses_certificate(directory: Path) -> None:
    (directory / "tls.pem").write_bytes(foreign())


def foreign() -> bytes:
    """A certificate that somebody else made."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhooks CA 01234567")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def somebody_elses_authority(directory: Path) -> None:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "our CA")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1000))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    signed = builder.sign(key, hashes.SHA256())
    (directory / "ca.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (directory / "ca-key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def a_leaf_for_an_authority(directory: Path) -> None:
    (directory / "ca.pem").write_bytes((directory / "tls.pem").read_bytes())
    (directory / "ca-key.pem").write_bytes((directory / "tls-key.pem").read_bytes())


def another_authoritys_key(directory: Path) -> None:
    issue(directory.parent / "other", names=NAMES)
    (directory.parent / "other" / "ca-key.pem").replace(directory / "ca-key.pem")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (somebody_elses_certificate, r"/tls\.pem: not issued here, so it is not replaced: choose another directory, "),
        (lose("tls.pem"), r"/tls-key\.pem: a key without its certificate tls\.pem, .*: remove it"),
        (somebody_elses_authority, r"/ca\.pem: not an authority that was made here, .*: choose another directory"),
        (a_leaf_for_an_authority, r"/ca\.pem: not an authority that was made here, .*: choose another directory"),
        (another_authoritys_key, r"/ca-key\.pem: not the key of .*/ca\.pem: put the right one back"),
        (lose("ca-key.pem"), r": ca-key\.pem .* put it back; or, .* remove .*: ca\.pem, tls\.pem, tls-key\.pem$"),
        (lose("ca.pem"), r": ca\.pem .* put it back; or, .* remove .*: ca-key\.pem, tls\.pem, tls-key\.pem$"),
        (
            lambda directory: [lose("ca.pem")(directory), lose("ca-key.pem")(directory)],
            r": ca\.pem and ca-key\.pem .* put it back; or, .* remove .*: tls\.pem, tls-key\.pem$",
        ),
    ],
)
def test_what_would_cost_somebody_else_something_is_refused(directory: Path, spoil, says: str) -> None:
    """What others made is not replaced; nor the authority that callers know, when half of it is lost."""
    spoil(directory)
    before = contents(directory)
    for issuing in (issue, lambda directory, names: ensure(directory, names=names)):
        with pytest.raises(ConfigurationError, match=says):
            issuing(directory, names=add_name(directory))
        assert changed(before, directory) == set()


def test_a_callers_pair_of_somebody_else_is_not_replaced(directory: Path) -> None:
    (directory / "jane.pem").write_bytes(foreign())
    (directory / "joe-key.pem").write_bytes((directory / "tls-key.pem").read_bytes())
    for name, says in (("jane", "not issued here"), ("joe", r"a key without its certificate joe\.pem")):
        with pytest.raises(ConfigurationError, match=says):
            issue_client(directory, name)


def test_a_good_pair_serves_on_though_nothing_can_be_signed(directory: Path) -> None:
    """Taking the authority's key out of reach is a good habit."""
    (directory / "ca-key.pem").unlink()
    before = contents(directory)
    assert ensure(directory, names=NAMES) == ServingPair.of(directory)
    assert changed(before, directory) == set()


def test_a_good_pair_that_cannot_be_renewed_serves_on_with_a_warning(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    due(directory)
    (directory / "ca-key.pem").unlink()
    before = contents(directory)
    assert ensure(directory, names=NAMES) == ServingPair.of(directory)
    assert changed(before, directory) == set()
    [record] = caplog.records
    assert "is not renewed: " in record.getMessage()
    assert "ca-key.pem of the authority that callers know is missing" in record.getMessage()


def test_issuing_keeps_the_authority(directory: Path) -> None:
    before = contents(directory)
    issue(directory, names=NAMES)
    assert changed(before, directory) == SERVING


def encrypted(directory: Path) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


def other_kind(directory: Path) -> bytes:
    return ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def half(directory: Path) -> bytes:
    return (directory / "ca.pem").read_bytes()[:300]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ca.pem", b""),
        ("ca.pem", half),
        ("ca-key.pem", b"rubbish"),
        ("ca-key.pem", encrypted),
        ("ca-key.pem", other_kind),
        ("tls.pem", b""),
        ("tls.pem", half),
        ("tls-key.pem", b"rubbish"),
        ("tls-key.pem", encrypted),
    ],
)
def test_a_corrupt_file_is_named_and_left_alone(directory: Path, name: str, content) -> None:
    (directory / name).write_bytes(content if isinstance(content, bytes) else content(directory))
    before = contents(directory)
    with pytest.raises(ConfigurationError, match="remove it") as error:
        ensure(directory, names=add_name(directory))
    assert str(error.value).startswith(f"{directory / name}: ")
    assert changed(before, directory) == set()


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_read_is_named(directory: Path, name: str) -> None:
    (directory / name).unlink()
    (directory / name).mkdir()
    with pytest.raises(ConfigurationError, match="cannot be read") as error:
        ensure(directory, names=add_name(directory))
    assert str(error.value).startswith(f"{directory / name}: ")


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "certs"):
        with pytest.raises(ConfigurationError, match="cannot be written") as error:
            ensure(place, names=NAMES)
        assert str(error.value).startswith(f"{place}: ")


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match=r"ca\.pem: cannot be written \(No space left on device\)"):
        issue(tmp_path, names=NAMES)
    assert list(tmp_path.iterdir()) == []


def test_a_key_is_never_open_to_others(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: dict[str, int] = {}
    real = os.open

    def watched(path, flags, mode=0o777, **rest) -> int:
        descriptor = real(path, flags, mode, **rest)
        if flags & os.O_CREAT:
            assert flags & os.O_EXCL
            opened[Path(path).name.split(".")[1]] = stat.S_IMODE(os.fstat(descriptor).st_mode)
        return descriptor

    monkeypatch.setattr(os, "open", watched)
    before = os.umask(0)
    try:
        issue(directory, names=NAMES)
    finally:
        os.umask(before)
    assert opened == {"tls-key": 0o600, "tls": 0o644}


def test_many_that_start_at_once_agree(tmp_path: Path) -> None:
    directory = tmp_path / "certs"

    def start(_: int) -> bytes:
        return ensure(directory, names=NAMES).certificate.read_bytes()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(start, range(8)))) == 1
    assert sorted(os.listdir(directory)) == FILES


def test_a_client_certificate(directory: Path) -> None:
    before = contents(directory)
    client_pair = issue_client(directory, "system:apiserver")
    assert changed(before, directory) == {"system:apiserver.pem", "system:apiserver-key.pem"}
    assert stat.S_IMODE(client_pair.key.stat().st_mode) == 0o600
    certificate = read(client_pair.certificate)
    [common_name] = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert common_name.value == "system:apiserver"
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    server, client = contexts(ensure(directory, names=NAMES))
    server.load_verify_locations(directory / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    client.load_cert_chain(client_pair.certificate, client_pair.key)
    shake_hands(server, client, "localhost")
