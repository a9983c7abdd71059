"""The command ``webhooks certs``."""

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
    """The working directory of the command."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["certs", *map(str, arguments)], prog_name="webhooks")


def show(*arguments: object) -> list[dict]:
    result = run("show", "-o", "json", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def reported(output: str) -> list[str]:
    return re.findall(r"^(?:wrote|kept) .*$", output, re.MULTILINE)


def test_issuing_reports_the_files(folder: Path) -> None:
    result = run("issue", "webhooks.default.svc", "10.0.0.5", "--client", "apiserver", "--client", "probe")
    assert (result.exit_code, result.stderr) == (0, "")
    assert reported(result.stdout) == [
        "wrote certs/ca.pem (the CA that clients trust)",
        "wrote certs/tls.pem (key: certs/tls-key.pem)",
        "wrote certs/apiserver.pem (key: certs/apiserver-key.pem)",
        "wrote certs/probe.pem (key: certs/probe-key.pem)",
    ]
    assert re.findall(r"^  for +(.*)", result.stdout, re.MULTILINE)[1:] == [
        "webhooks.default.svc, 10.0.0.5",
        "apiserver",
        "probe",
    ]
    in_a_year = f"{datetime.now(UTC) + timedelta(days=365):%Y-%m-%d}"
    assert f"expires {in_a_year}" in result.stdout
    assert "UTC, in 364 days" in result.stdout
    prints = re.findall(rf"^  SHA-256 ({FINGERPRINT})$", result.stdout, re.MULTILINE)
    openssl = subprocess.run(
        ["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", folder / "certs" / "tls.pem"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert openssl.strip().endswith(f"={prints[1]}")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (folder / "certs").glob("*-key.pem")}
    assert set(modes) == {"ca-key.pem", "tls-key.pem", "apiserver-key.pem", "probe-key.pem"}
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        ((), ["wrote certs/ca.pem", "wrote certs/tls.pem"]),
        (("x",), ["wrote certs/ca.pem", "wrote certs/tls.pem"]),
        (("--client", "jane"), ["wrote certs/ca.pem", "wrote certs/jane.pem"]),
        (("--certs-dir", "other", "--client", "jane"), ["wrote other/ca.pem", "wrote other/jane.pem"]),
    ],
)
def test_issued_files(arguments: tuple[str, ...], files: list[str]) -> None:
    assert [line.partition(" (")[0] for line in reported(run("issue", *arguments).stdout)] == files
    again = [line.partition(" (")[0] for line in reported(run("issue", *arguments).stdout)]
    assert again == [files[0].replace("wrote", "kept"), files[1]]


def test_the_default_names_are_the_previous_ones_or_those_of_this_host() -> None:
    for arguments, expected in (((), default_names()), (("webhooks.default.svc",), ["webhooks.default.svc"])):
        run("issue", *arguments)
        for _ in range(2):
            [names] = [entry["names"] for entry in show() if entry["file"] == "certs/tls.pem"]
            assert set(names) == set(expected)
            run("issue")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a b",), "name 'a b': must be a DNS name or an IP address"),
        (("--client", "a/b"), "client name 'a/b': "),
        (("--certs-dir", "file/x"), "file/x: cannot be written: Not a directory: choose a directory"),
        (("--certs-dir", "theirs", "x"), "theirs/tls.pem: not issued here, so it is not replaced: choose another "),
        (("--certs-dir", "headless", "x"), "headless: nothing can be signed without ca-key.pem"),
    ],
)
def test_errors(arguments: tuple[str, ...], message: str, folder: Path) -> None:
    (folder / "file").touch()
    issue(folder / "theirs", names=["x"])
    (folder / "theirs" / "tls.pem").write_bytes(certificate("foreign")[0])
    issue(folder / "headless", names=["x"])
    (folder / "headless" / "ca-key.pem").unlink()
    result = run("issue", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"webhooks: {message}")
    assert len(result.stderr.splitlines()) == 1


def certificate(name: str, key=None) -> tuple[bytes, bytes]:
    """Return a certificate that was not issued here, and its key."""
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
    result = run("show")
    assert (result.exit_code, result.stderr) == (0, "")
    heading, *lines = (re.split(r"  +", line) for line in result.stdout.splitlines())
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
    ca = lines[0][1]
    assert re.fullmatch("webhooks CA [0-9a-f]{8}", ca)
    times = [line.pop(4) for line in lines[:3]]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", time) for time in times)
    assert lines == [
        ["certs/ca.pem", ca, "-", ca, "3249 days", "ECDSA P-256", "ca-key.pem"],
        ["certs/jane.pem", "jane", "-", ca, "365 days", "ECDSA P-256", "none"],
        ["certs/tls.pem", "webhooks", "localhost", ca, "expired", "ECDSA P-256", "tls-key.pem"],
        ["", "10.0.0.5"],
    ]


def test_json(folder: Path) -> None:
    issue(folder / "certs", names=["localhost"])
    ca, tls = show()
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


def test_foreign_files(folder: Path) -> None:
    """Other file names and key types, several certificates in a file, a certificate with its key."""
    (folder / "mount").mkdir()
    (folder / "mount" / "tls.crt").write_bytes(b"".join(certificate(name)[0] for name in ("leaf", "between")))
    signed, key = certificate("by hand", rsa.generate_private_key(65537, 2048))
    (folder / "mount" / "other.cer").write_bytes(signed)
    (folder / "mount" / "key.key").write_bytes(key)
    (folder / "mount" / "both.pem").write_bytes(b"".join(certificate("both\x1b[31m")))
    (folder / "mount" / "notes.txt").write_text("ignored")
    (folder / "mount" / "..data").mkdir()
    keys = {entry["subject"]: (entry["key_type"], entry["key_file"]) for entry in show("mount")}
    assert keys == {
        "leaf": ("Ed25519", None),
        "between": ("Ed25519", None),
        "by hand": ("RSA 2048", "mount/key.key"),
        "both\\x1b[31m": ("Ed25519", "mount/both.pem"),
    }
    assert " 30 hours " in run("show", "mount").stdout


@pytest.mark.parametrize("key", ["web.key", "web-key.pem"])
def test_the_key_file_next_to_a_certificate(key: str, folder: Path) -> None:
    (folder / "web.pem").write_bytes(certificate("web")[0])
    assert [entry["key_file"] for entry in show("web.pem")] == [None]
    signed, private = certificate("web")
    (folder / "web.pem").write_bytes(signed)
    (folder / key).write_bytes(private)
    assert [entry["key_file"] for entry in show("web.pem")] == [key]


def test_errors_are_shown_after_the_certificates(folder: Path) -> None:
    issue(folder / "certs", names=["localhost"])
    (folder / "certs" / "half.pem").write_bytes((folder / "certs" / "tls.pem").read_bytes()[:200])
    (folder / "certs" / "half-key.pem").write_text("-----BEGIN PRIVATE KEY-----\nMIG\n-----END PRIVATE KEY-----\n")
    result = run("show", "certs", "nothing.pem")
    assert result.exit_code == 2
    assert "certs/tls.pem" in result.stdout
    assert result.stderr.splitlines() == [
        "webhooks: certs/half-key.pem: not a private key in PEM form without a password",
        "webhooks: certs/half.pem: not a certificate in PEM form",
        "webhooks: nothing.pem: no such file or folder",
    ]


def test_no_certificates_at_all() -> None:
    result = run("show")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "webhooks: certs: no such file or folder\n"
