"""``webhooks certs``, as somebody meets it who types."""

import json
import re
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from webhooks.certificates import default_names, issue, issue_client
from webhooks.cli.main import main

FINGERPRINT = r"(?:[0-9A-F]{2}:){31}[0-9A-F]{2}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where somebody types."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["certs", *map(str, arguments)], prog_name="webhooks")


def shown(*arguments: object) -> list[dict]:
    ended = run("show", "-o", "json", *arguments)
    assert (ended.exit_code, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def told(output: str) -> list[str]:
    return re.findall(r"^(?:wrote|kept) .*$", output, re.MULTILINE)


def test_issuing_tells_what_was_written(folder: Path) -> None:
    ended = run("issue", "webhooks.default.svc", "10.0.0.5", "--client", "apiserver", "--client", "probe")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert told(ended.stdout) == [
        "wrote certs/ca.pem (what callers trust)",
        "wrote certs/tls.pem (key: certs/tls-key.pem)",
        "wrote certs/apiserver.pem (key: certs/apiserver-key.pem)",
        "wrote certs/probe.pem (key: certs/probe-key.pem)",
    ]
    assert re.findall(r"^  for +(.*)", ended.stdout, re.MULTILINE)[1:] == [
        "webhooks.default.svc, 10.0.0.5",
        "apiserver",
        "probe",
    ]
    tomorrow_in_a_year = f"{datetime.now(UTC) + timedelta(days=365):%Y-%m-%d}"
    assert f"ends    {tomorrow_in_a_year}" in ended.stdout
    assert "UTC, in 364 days" in ended.stdout
    prints = re.findall(rf"^  SHA-256 ({FINGERPRINT})$", ended.stdout, re.MULTILINE)
    told_by_openssl = subprocess.run(
        ["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", folder / "certs" / "tls.pem"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told_by_openssl.strip().endswith(f"={prints[1]}")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (folder / "certs").glob("*-key.pem")}
    assert set(modes) == {"ca-key.pem", "tls-key.pem", "apiserver-key.pem", "probe-key.pem"}
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ((), ["wrote certs/ca.pem", "wrote certs/tls.pem"]),
        (("x",), ["wrote certs/ca.pem", "wrote certs/tls.pem"]),
        (("--client", "jane"), ["wrote certs/ca.pem", "wrote certs/jane.pem"]),
        (("--certs-dir", "other", "--client", "jane"), ["wrote other/ca.pem", "wrote other/jane.pem"]),
    ],
)
def test_what_is_issued(arguments: tuple[str, ...], written: list[str]) -> None:
    assert [line.partition(" (")[0] for line in told(run("issue", *arguments).stdout)] == written
    again = [line.partition(" (")[0] for line in told(run("issue", *arguments).stdout)]
    assert again == [written[0].replace("wrote", "kept"), written[1]]


def test_without_names_it_is_for_those_from_before_or_else_for_this_host() -> None:
    for arguments, expected in (((), default_names()), (("webhooks.default.svc",), ["webhooks.default.svc"])):
        run("issue", *arguments)
        for _ in range(2):
            [names] = [each["names"] for each in shown() if each["file"] == "certs/tls.pem"]
            assert set(names) == set(expected)
            run("issue")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("a b",), "name 'a b': neither a DNS name nor an IP address"),
        (("--client", "a/b"), "client name 'a/b': "),
        (("--certs-dir", "file/x"), "file/x: cannot be written (Not a directory): choose a directory"),
        (("--certs-dir", "theirs", "x"), "theirs/tls.pem: not issued here, so it is not replaced: choose another "),
        (("--certs-dir", "headless", "x"), "headless: ca-key.pem of the authority that callers know is missing"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], says: str, folder: Path) -> None:
    (folder / "file").touch()
    issue(folder / "theirs", names=["x"])
    (folder / "theirs" / "tls.pem").write_bytes(certificate("somebody")[0])
    issue(folder / "headless", names=["x"])
    (folder / "headless" / "ca-key.pem").unlink()
    ended = run("issue", *arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"webhooks: {says}")
    assert len(ended.stderr.splitlines()) == 1


def certificate(name: str, key=None) -> tuple[bytes, bytes]:
    """One that somebody else made, and its key."""
    key, now = key or ed25519.Ed25519PrivateKey.generate(), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(hours=30, minutes=1))
    signed = builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return signed.public_bytes(Encoding.PEM), pem


def test_the_table(folder: Path) -> None:
    issue(folder / "certs", names=["localhost", "10.0.0.5"], now=datetime.now(UTC) - timedelta(days=400))
    issue_client(folder / "certs", "jane", now=datetime.now(UTC) + timedelta(minutes=1))
    (folder / "certs" / "jane-key.pem").unlink()
    ended = run("show")
    assert (ended.exit_code, ended.stderr) == (0, "")
    heading, *lines = (re.split(r"  +", line) for line in ended.stdout.splitlines())
    assert heading == [
        "FILE",
        "SUBJECT",
        "NAMES",
        "ISSUER",
        "NOT AFTER (UTC)",
        "REMAINING",
        "KEY TYPE",
        "MATCHING KEY",
    ]
    authority = lines[0][1]
    assert re.fullmatch("webhooks CA [0-9a-f]{8}", authority)
    when = [line.pop(4) for line in lines[:3]]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", each) for each in when)
    assert lines == [
        ["certs/ca.pem", authority, "-", authority, "3249 days", "ECDSA P-256", "ca-key.pem"],
        ["certs/jane.pem", "jane", "-", authority, "365 days", "ECDSA P-256", "none"],
        ["certs/tls.pem", "webhooks", "localhost", authority, "ended", "ECDSA P-256", "tls-key.pem"],
        ["", "10.0.0.5"],
    ]


def test_json(folder: Path) -> None:
    issue(folder / "certs", names=["localhost"])
    ca, tls = shown()
    assert re.fullmatch(FINGERPRINT, tls.pop("sha256"))
    assert tls.pop("remaining_seconds") == pytest.approx(365 * 86400, abs=60)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", tls.pop("not_after"))
    assert tls == {
        "file": "certs/tls.pem",
        "subject": "webhooks",
        "names": ["localhost"],
        "issuer": ca["subject"],
        "key_type": "ECDSA P-256",
        "key_file": "certs/tls-key.pem",
    }


def test_files_of_others(folder: Path) -> None:
    """Names as others give them, keys of any kind, several certificates in a file, a key among them."""
    (folder / "mount").mkdir()
    (folder / "mount" / "tls.crt").write_bytes(b"".join(certificate(name)[0] for name in ("leaf", "between")))
    signed, key = certificate("by hand", rsa.generate_private_key(65537, 2048))
    (folder / "mount" / "other.cer").write_bytes(signed)
    (folder / "mount" / "key.key").write_bytes(key)
    (folder / "mount" / "both.pem").write_bytes(b"".join(certificate("both\x1b[31m")))
    (folder / "mount" / "notes.txt").write_text("not looked at")
    (folder / "mount" / "..data").mkdir()
    found = {each["subject"]: (each["key_type"], each["key_file"]) for each in shown("mount")}
    assert found == {
        "leaf": ("Ed25519", None),
        "between": ("Ed25519", None),
        "by hand": ("RSA 2048", "mount/key.key"),
        "both\\x1b[31m": ("Ed25519", "mount/both.pem"),
    }
    assert " 30 hours " in run("show", "mount").stdout


@pytest.mark.parametrize("key", ["web.key", "web-key.pem"])
def test_the_key_beside_a_file_is_found(key: str, folder: Path) -> None:
    (folder / "web.pem").write_bytes(certificate("web")[0])
    assert [each["key_file"] for each in shown("web.pem")] == [None]
    signed, private = certificate("web")
    (folder / "web.pem").write_bytes(signed)
    (folder / key).write_bytes(private)
    assert [each["key_file"] for each in shown("web.pem")] == [key]


def test_what_cannot_be_shown_is_told_after_the_rest(folder: Path) -> None:
    issue(folder / "certs", names=["localhost"])
    (folder / "certs" / "half.pem").write_bytes((folder / "certs" / "tls.pem").read_bytes()[:200])
    (folder / "certs" / "half-key.pem").write_text("-----BEGIN PRIVATE KEY-----\nMIG\n-----END PRIVATE KEY-----\n")
    ended = run("show", "certs", "nothing.pem")
    assert ended.exit_code == 2
    assert "certs/tls.pem" in ended.stdout
    assert ended.stderr.splitlines() == [
        "webhooks: certs/half-key.pem: no private key in PEM form that is readable without a password",
        "webhooks: certs/half.pem: no certificate in PEM form",
        "webhooks: nothing.pem: no such file or folder",
    ]


def test_no_certificates_at_all() -> None:
    ended = run("show")
    assert (ended.exit_code, ended.stderr) == (2, "webhooks: certs: no such file or folder\n")
