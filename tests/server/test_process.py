"""A server of one process: its start, its ports and certificates, and errors at the start."""

import json
import re
import socket
import ssl
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from webhooks import certificates

from ..support.mistakes import MISTAKES, POLICY, Failure, run_mistakes
from ..support.packages import denying
from ..support.pairs import GOOD, VALIDATE, assert_serves
from ..support.servers import POLICIES, SECONDS, Connection, Server, client_context, review, serving, webhooks


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a serving pair and a client pair."""
    folder = tmp_path_factory.mktemp("issued")
    certificates.issue(folder, names=["127.0.0.1"])
    certificates.issue_client(folder, "apiserver")
    return folder


@pytest.fixture(scope="module")
def failures(issued: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Failure]:
    return run_mistakes(tmp_path_factory.mktemp("mistakes"), issued)


# Ports and certificates.


def test_the_only_output_is_the_ready_line(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with server.connect() as connection:
            assert_serves(connection)
        assert server.stop() == 0
        assert server.output.all() == [f"ready https://127.0.0.1:{server.port}"]
        assert server.errors.all() == []


def test_a_development_certificate_is_issued(server: Server) -> None:
    certs = server.folder / "certs"
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in certs.iterdir()}
    assert modes == {"ca.pem": 0o644, "ca-key.pem": 0o600, "tls.pem": 0o644, "tls-key.pem": 0o600}


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", socket.gethostname().lower()])
def test_the_development_certificate_can_be_verified(name: str, server: Server) -> None:
    context = client_context(server.folder / "certs" / "ca.pem")
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with (
        socket.create_connection(("127.0.0.1", server.port), SECONDS) as raw,
        context.wrap_socket(raw, server_hostname=name) as connection,
    ):
        assert connection.version() == "TLSv1.3"


def test_the_development_certificate_is_kept(issued: Path, tmp_path: Path) -> None:
    certificates.issue(tmp_path / "certs", names=certificates.default_names())
    before = {file.name: file.read_bytes() for file in (tmp_path / "certs").iterdir()}
    with serving(tmp_path) as server, server.connect() as connection:
        assert_serves(connection)
    assert {file.name: file.read_bytes() for file in (tmp_path / "certs").iterdir()} == before


def test_a_certificate_of_another_ca(issued: Path, tmp_path: Path) -> None:
    with serving(tmp_path, "--tls-cert", issued / "tls.pem", "--tls-key", issued / "tls-key.pem") as server:
        with server.connect(client_context(issued / "ca.pem")) as connection:
            assert_serves(connection)
        assert [file.name for file in tmp_path.iterdir() if file.is_dir() and file.name != "__pycache__"] == []


@pytest.mark.parametrize("ops", [False, True])
@pytest.mark.parametrize(
    ("path", "body"), [("/livez", b"ok"), ("/readyz", b"ok"), ("/healthz", b"ok"), ("/metrics", b"")]
)
def test_health_and_metrics_at_both_ports(path: str, body: bytes, ops: bool, server: Server) -> None:
    reply = server.get(path, ops=ops)
    assert reply.status == 200
    assert reply.body == body or path == "/metrics"


@pytest.mark.parametrize(
    "path", [VALIDATE, "/authorize", "/authenticate", "/images", "/audit", "/docs", "/openapi.json"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_ops_port_serves_no_reviews(method: str, path: str, server: Server) -> None:
    with Connection(server.ops_port or 0, None) as connection:
        connection.request(method, path, GOOD if method == "POST" else b"")
        assert connection.reply().status == 404


# Plugins.


@pytest.mark.parametrize("policies", ["", POLICIES], ids=["alone", "with policies"])
def test_plugins_are_closed_with_the_server(policies: str, tmp_path: Path) -> None:
    with serving(tmp_path, *denying(tmp_path), policies=policies, PYTHONPATH=str(tmp_path)) as server:
        response = server.post(VALIDATE, review(resource="gadgets")).json()["response"]
        assert response["status"]["message"] == f"{server.process.pid} of 1"
        for ops in (False, True):
            page = server.get("/metrics", ops=ops).body.decode()
            assert 'webhooks_denying_denied_total{resource="gadgets"} 1.0\n' in page
        assert not (tmp_path / "ended").exists()
        assert server.stop() == 0
        assert (tmp_path / "ended").read_text() == f"{server.process.pid}\n"
        assert server.errors.all() == []


# Errors at the start: one line with the location, exit code 2, and no new files.


def test_all_errors_of_an_admission_configuration_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text("kind: AdmissionConfigurations\nplugins:\n- name: Nothing\n  pth: x\n")
    for workers in (1, 2):
        command = webhooks("serve", "--admission-config", file, "--workers", workers, "--port", 0, "--ops-port", 0)
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.splitlines() == [
            f"webhooks: {file}:1:1: apiVersion: Required value",
            f'webhooks: {file}:1:7: kind: Unsupported value: "AdmissionConfigurations": '
            'supported values: "AdmissionConfiguration"',
            f'webhooks: {file}:3:9: plugins[0].name: Unsupported value: "Nothing": supported values: "EventRateLimit"',
            f"webhooks: {file}:4:3: plugins[0].pth: Forbidden: unknown field; did you mean path?",
        ]
        assert [path.name for path in tmp_path.iterdir()] == ["admission.yaml"]


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        (1, r"webhooks: \S*policies\.py:5: policy 'allows' cannot be isolated: \S*policies\.py:2: AssertionError:\n"),
        (2, r"({.*cannot start: \S*policies\.py:5: policy 'allows' .*}\n)+webhooks: a worker did not start: .*\n"),
    ],
)
def test_an_isolated_policy_that_cannot_be_loaded_is_an_error(workers: int, message: str, tmp_path: Path) -> None:
    file = tmp_path / "policies.py"
    isolated = POLICY.replace('"pods"', '"pods", isolation=True')
    file.write_text(f"import sys\nassert 'webhooks.engine.process_worker' not in sys.orig_argv\n{isolated}")
    command = webhooks("serve", "--policies", file, "--workers", workers, "--port", 0, "--ops-port", 0)
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert (result.returncode, result.stdout) == (2, "")
    assert re.fullmatch(message, result.stderr), result.stderr


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, failures: dict[str, Failure]) -> None:
    failure = failures[name]
    assert failure.output == ""
    assert len(failure.errors.splitlines()) == 1, failure.errors
    assert re.search(failure.message, failure.errors), failure.errors
    assert failure.errors.startswith("webhooks: ")
    assert failure.errors.removesuffix("\n").isprintable()
    assert failure.code == 2
    assert failure.new_files == set()
    socket.create_server(("127.0.0.1", failure.port)).close()


def test_a_folder_of_policies(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "one.py").write_text(POLICY.replace("allows", "one"))
    (folder / "two.py").write_text(POLICY.replace("allows", "two"))
    for ignored in ("_helper.py", "test_one.py", "conftest.py", "notes.txt"):
        (folder / ignored).write_text("oops(")
    options = ("--policies", folder, "--policies", "library:required_labels")
    with serving(tmp_path, *options) as server:
        paths = json.loads(server.get("/openapi.json").body)["paths"]
    assert {f"{VALIDATE}/{name}" for name in ("one", "two", "required_labels", "reads_all")} < set(paths)
