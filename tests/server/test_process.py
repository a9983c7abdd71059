"""One process that answers: its certificates, its ports, its end, and the mistakes that keep it from starting."""

import json
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from webhooks import certificates
from webhooks.server.uvicorn_server import KEEP_ALIVE

from ..support.packages import denying
from ..support.servers import (
    POLICIES,
    SECONDS,
    Connection,
    Gate,
    Server,
    client_context,
    free_port,
    request,
    review,
    serving,
    webhooks,
)

VALIDATE = "/admission/validate"
GOOD = review()
# Event loops of Python end a failed handshake without the alert that OpenSSL has written for it.
REFUSED = (ssl.SSLError, ConnectionResetError, BrokenPipeError, EOFError)
POLICY = """\
from webhooks import *

@validating("pods")
def allows(review, *, labels: list[str] = ["owner"]):
    return Allow()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a serving pair and a client's."""
    folder = tmp_path_factory.mktemp("issued")
    certificates.issue(folder, names=["127.0.0.1"])
    certificates.issue_client(folder, "apiserver")
    return folder


def assert_serves(connection: Connection) -> None:
    assert connection.post(VALIDATE, GOOD).json()["response"] == {"uid": "uid-1", "allowed": True}


# Ports and certificates.


def test_it_says_that_it_is_ready_and_nothing_else(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with server.connect() as connection:
            assert_serves(connection)
        assert server.stop() == 0
        assert server.output.all() == [f"ready https://127.0.0.1:{server.port}"]
        assert server.errors.all() == []


def test_a_development_certificate_is_made(server: Server) -> None:
    certs = server.folder / "certs"
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in certs.iterdir()}
    assert modes == {"ca.pem": 0o644, "ca-key.pem": 0o600, "tls.pem": 0o644, "tls-key.pem": 0o600}


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", socket.gethostname().lower()])
def test_the_development_certificate_is_good_for_verifying_callers(name: str, server: Server) -> None:
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


def test_a_certificate_of_ones_own(issued: Path, tmp_path: Path) -> None:
    with serving(tmp_path, "--tls-cert", issued / "tls.pem", "--tls-key", issued / "tls-key.pem") as server:
        with server.connect(client_context(issued / "ca.pem")) as connection:
            assert_serves(connection)
        assert [file.name for file in tmp_path.iterdir() if file.is_dir() and file.name != "__pycache__"] == []


def offer(version: ssl.TLSVersion) -> ssl.SSLContext:
    """A caller that speaks this version of TLS alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_new_versions_of_tls(version: ssl.TLSVersion, server: Server) -> None:
    with server.connect(offer(version)) as connection:
        assert_serves(connection)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_of_tls_are_refused(version: ssl.TLSVersion, server: Server) -> None:
    with pytest.raises(REFUSED):
        server.connect(offer(version))


def test_weak_ciphers_are_refused(server: Server) -> None:
    context = offer(ssl.TLSVersion.TLSv1_2)
    context.set_ciphers("AES128-SHA:@SECLEVEL=0")
    with pytest.raises(REFUSED):
        server.connect(context)


@pytest.mark.parametrize("data", [request("GET", "/livez", headers={}), b"\0" * 100, b"\x16\x03\x01\xff\xff"])
def test_what_is_no_tls_harms_nobody(data: bytes, server: Server) -> None:
    with Connection(server.port, None) as plain:
        plain.send(data)
        plain.socket.shutdown(socket.SHUT_WR)
        while plain.socket.recv(4096):
            pass
    with server.connect() as connection:
        assert_serves(connection)


def reviews_counted(server: Server) -> float:
    samples = server.get("/metrics", ops=True).body.decode().splitlines()
    return sum(float(sample.split()[-1]) for sample in samples if sample.startswith("webhooks_reviews_total"))


def test_callers_must_show_a_certificate_where_one_is_asked_for(issued: Path, tmp_path: Path) -> None:
    foreign = certificates.issue_client(tmp_path / "foreign", "apiserver")
    with serving(tmp_path, "--client-ca", issued / "ca.pem") as server:
        ca = server.folder / "certs" / "ca.pem"
        listed = (issued / "apiserver.pem", issued / "apiserver-key.pem")
        old = offer(ssl.TLSVersion.TLSv1_2)
        old.load_cert_chain(*listed)
        strangers = {
            "no certificate": client_context(ca),
            "one of another authority": client_context(ca, (foreign.certificate, foreign.key)),
            "one for servers": client_context(ca, (issued / "tls.pem", issued / "tls-key.pem")),
            "TLS 1.2, whose sessions would outlive the authority": old,
        }
        for name, context in strangers.items():
            with pytest.raises(REFUSED), server.connect(context) as connection:
                pytest.fail(f"{name}: {connection.post(VALIDATE, GOOD)}")
        assert reviews_counted(server) == 0
        with server.connect(client_context(ca, listed)) as connection:
            assert_serves(connection)
        assert reviews_counted(server) == 1


def test_sessions_are_not_resumed(server: Server) -> None:
    """One that outlived the removal of an authority would let its callers in."""
    with server.connect() as first:
        assert_serves(first)
        session = first.socket.session
    assert session is None or not session.has_ticket


def listening(server: Server) -> int:
    """At how many ports the process listens."""
    links = [str(each.readlink()) for each in Path(f"/proc/{server.process.pid}/fd").iterdir()]
    own = {link[8:-1] for link in links if link.startswith("socket:[")}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(fields[3] == "0A" and fields[9] in own for fields in lines)


def test_there_need_not_be_an_ops_port(server: Server, tmp_path: Path) -> None:
    assert listening(server) == 2
    with serving(tmp_path, ops=False) as without:
        assert listening(without) == 1
        assert without.get("/readyz").body == b"ok"


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


def test_idle_connections_are_closed_and_no_others(tmp_path: Path) -> None:
    """A second of patience here; callers keep idle connections for 90, and they are to be the first to close."""
    assert KEEP_ALIVE > 90
    short = "import webhooks.server.uvicorn_server\nwebhooks.server.uvicorn_server.KEEP_ALIVE = 1\n"
    with (
        serving(tmp_path, policies=short + POLICIES) as server,
        Gate() as gate,
        server.connect() as idle,
        server.connect() as used,
        server.connect() as waiting,
    ):
        assert_serves(waiting)
        waiting.request("POST", VALIDATE, gate.review("waits"))
        gate.await_policy()
        assert_serves(idle)
        began = time.monotonic()
        while idle.is_silent(0.2):
            assert_serves(used)
        assert 0.9 < time.monotonic() - began < 3
        assert idle.is_closed()
        gate.open()
        assert waiting.reply().json()["response"]["allowed"] is True
        assert_serves(waiting)
        assert_serves(used)
        last = time.monotonic()
        assert used.is_closed()
        assert 0.9 < time.monotonic() - last < 3


# The end.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_open_reviews_are_answered_before_the_end(number: int, tmp_path: Path) -> None:
    with serving(tmp_path) as server, Gate() as gate:
        open_reviews = [server.connect() for _ in range(2)]
        idle = server.connect()
        assert_serves(idle)
        for connection, slow in zip(open_reviews, ("waits", "hangs"), strict=True):
            connection.request("POST", VALIDATE, gate.review(slow))
            gate.await_policy()
        server.signal(number)
        assert idle.is_closed()
        idle.close()
        with pytest.raises(ConnectionRefusedError):
            server.connect()
        gate.open()
        for connection in open_reviews:
            reply = connection.reply()
            assert reply.json()["response"]["allowed"] is True
            assert reply.closes
            assert connection.is_closed()
            connection.close()
        assert server.wait() == 0
        assert server.errors.all() == []


def test_a_policy_that_hangs_for_ever_does_not_keep_the_process(tmp_path: Path) -> None:
    with serving(tmp_path) as server, Gate() as gate:
        with server.connect() as connection:
            connection.request("POST", f"{VALIDATE}?timeout=1s", gate.review("hangs"))
            gate.await_policy()
            server.signal()
            response = connection.reply().json()["response"]
        assert (response["allowed"], response["status"]["code"]) == (False, 504)
        assert server.process.wait(5) == 0


@pytest.mark.parametrize("slow", ["waits", "hangs"])
def test_a_second_signal_ends_it_at_once(slow: str, tmp_path: Path) -> None:
    with serving(tmp_path) as server, Gate() as gate, server.connect() as connection:
        connection.request("POST", VALIDATE, gate.review(slow))
        gate.await_policy()
        with server.connect() as idle:
            server.signal()
            assert idle.is_closed()  # so the first one has been taken
        server.signal()
        assert server.process.wait(5) == 0


@pytest.fixture(scope="module", autouse=True)
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that was asked to end while callers are silent, or in a body, or wait for a policy for ever."""
    with (
        serving(tmp_path_factory.mktemp("besieged"), "--grace", 10) as server,
        Gate() as gate,
        server.connect() as half,
        server.connect(),
        Connection(server.port, None),
        server.connect() as waiting,
    ):
        half.send(request("POST", VALIDATE, GOOD)[:-10])
        waiting.request("POST", f"{VALIDATE}?timeout=30s", gate.review("hangs"))
        gate.await_policy()
        server.signal()
        yield server


# Plugins.


@pytest.mark.parametrize("policies", ["", POLICIES], ids=["alone", "beside policies"])
def test_plugins_are_served_and_end_with_the_server(policies: str, tmp_path: Path) -> None:
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


# Mistakes: one line that says where, exit code 2, and nothing left.


@dataclass(frozen=True)
class Mistake:
    """What somebody wrote, and what the line says about it."""

    says: str
    options: tuple[object, ...] = ()
    policies: str | bytes = POLICY
    more: str | None = None  # a second policy file
    given: str = "policies.py"


MISTAKES = {
    "no Python": Mistake(r"policies\.py:3: not valid Python: ", policies="from webhooks import *\n\ndef oops(:\n"),
    "not even UTF-8": Mistake(r"policies\.py(:\d+)?: not valid Python: ", policies=b'x = 1\ny = "\xff"\n'),
    "a zero byte": Mistake(r"policies\.py", policies=b"x = 1\0\n"),
    "raises": Mistake(r"policies\.py:2: ZeroDivisionError: ", policies="x = 1\ny = 1 / 0\n"),
    "raises many lines": Mistake(
        r"policies\.py:1: ValueError: a b c", policies='raise ValueError("a\\nb\\r\\n\\tc")\n'
    ),
    "raises with controls": Mistake(
        r"policies\.py:1: ValueError: ", policies='raise ValueError("a\\x1b[31mb\\x85c")\n'
    ),
    "exits": Mistake(r"policies\.py:2: SystemExit: 0", policies="import sys\nsys.exit(0)\n"),
    "imports nothing": Mistake(r"policies\.py:1: ModuleNotFoundError: .*nobody", policies="import nobody\n"),
    "recurses": Mistake(r"policies\.py:1: RecursionError: ", policies="def f(): f()\nf()\n"),
    "no policies": Mistake(r"policies\.py: no policies", policies="x = 1\n"),
    "no such file": Mistake(r"nothing\.py: no such file", given="nothing.py"),
    "an empty folder": Mistake(r"empty: no policy files", given="empty"),
    "an unknown library name": Mistake(r"library:nothing: .*`webhooks library` lists them", given="library:nothing"),
    "a path in a library name": Mistake(r"library:\.\./x: ", given="library:../x"),
    "a bad resource": Mistake(r"policies\.py:3: .*'Pods'", policies=POLICY.replace('"pods"', '"Pods"')),
    "a bad signature": Mistake(r"policies\.py:3: .*'allows'", policies=POLICY.replace("*, ", "")),
    "a parameter of the wrong type": Mistake(
        r"policies\.py:[34]: policy 'allows', parameter 'labels': ", policies=POLICY.replace('["owner"]', '"owner"')
    ),
    "a parameter that is not set": Mistake(
        r"policies\.py:[34]: policy 'allows': .*'labels'", policies=POLICY.replace(' = ["owner"]', "")
    ),
    "a parameter of a type that is not there": Mistake(
        r"policies\.py:[34]: policy 'allows', parameter 'labels': .*Labels",
        policies=POLICY.replace("list[str]", '"Labels"'),
    ),
    "a parameter of a type that cannot be checked": Mistake(
        r"policies\.py:[34]: policy 'allows', parameter 'labels': ",
        policies=POLICY.replace("list[str]", "list[str] | tuple[str, ...]"),
    ),
    "a bound parameter of the wrong type": Mistake(
        r"policies\.py:7: policy 'allows', parameter 'labels': ", policies=POLICY + "\nallows = allows.bind(labels=1)\n"
    ),
    "two of one name": Mistake(
        r"more\.py:[34]: .*'allows', the other is at .*policies\.py:[34]",
        more=POLICY,
        options=("--policies", "more.py"),
    ),
    "the same file twice": Mistake(r"policies\.py:[34]: .*'allows'", options=("--policies", "policies.py")),
    "a port in use": Mistake(r"port TAKEN: Address already in use", options=("--port", "TAKEN")),
    "an ops port in use": Mistake(r"port TAKEN: Address already in use", options=("--ops-port", "TAKEN")),
    "one port for both": Mistake(r"--port and --ops-port are both \d+", options=("--ops-port", "PORT")),
    "an address of somebody else": Mistake(r"192\.0\.2\.1", options=("--host", "192.0.2.1")),
    "a name that is none": Mistake(r"a{70}", options=("--host", "a" * 70)),
    "no such certificate": Mistake(
        r"nothing\.pem: cannot be read", options=("--tls-cert", "nothing.pem", "--tls-key", "KEY")
    ),
    "a certificate that is none": Mistake(
        r"policies\.py: .*no usable certificate", options=("--tls-cert", "policies.py", "--tls-key", "KEY")
    ),
    "a key that is none": Mistake(r"policies\.py", options=("--tls-cert", "CERTIFICATE", "--tls-key", "policies.py")),
    "another's key": Mistake(r"ca-key\.pem", options=("--tls-cert", "CERTIFICATE", "--tls-key", "OTHERS")),
    "a key with a password": Mistake(r"locked\.pem", options=("--tls-cert", "CERTIFICATE", "--tls-key", "locked.pem")),
    "a certificate without its key": Mistake(r"--tls-cert and --tls-key", options=("--tls-cert", "CERTIFICATE")),
    "a key without its certificate": Mistake(r"--tls-cert and --tls-key", options=("--tls-key", "KEY")),
    "no such client authority": Mistake(r"nothing\.pem: cannot be read", options=("--client-ca", "nothing.pem")),
    "a client authority that is none": Mistake(
        r"policies\.py: no certificates", options=("--client-ca", "policies.py")
    ),
    "a folder that cannot be made": Mistake(r"policies\.py/certs: ", options=("--certs-dir", "policies.py/certs")),
    "no such admission configuration": Mistake(
        r"nothing\.yaml: cannot be read: No such file", options=("--admission-config", "nothing.yaml")
    ),
    "an admission configuration that is none": Mistake(
        r"policies\.py:4:29: not YAML: ", options=("--admission-config", "policies.py")
    ),
    "an admission configuration, and no Python": Mistake(
        r"policies\.py:1: not valid Python", policies="oops(\n", options=("--admission-config", "nothing.yaml")
    ),
    "two workers, no such admission configuration": Mistake(
        r"nothing\.yaml: cannot be read: ", options=("--workers", 2, "--admission-config", "nothing.yaml")
    ),
    "two workers, no Python": Mistake(
        r"policies\.py:1: not valid Python", policies="oops(\n", options=("--workers", 2)
    ),
    "two workers, a port in use": Mistake(
        r"port TAKEN: Address already in use", options=("--workers", 2, "--port", "TAKEN")
    ),
    "two workers, an ops port in use": Mistake(
        r"port TAKEN: Address already in use", options=("--workers", 2, "--ops-port", "TAKEN")
    ),
    "two workers, no such certificate": Mistake(
        r"nothing\.pem", options=("--workers", 2, "--tls-cert", "nothing.pem", "--tls-key", "KEY")
    ),
}


@dataclass(frozen=True)
class Failure:
    """What came of a mistake."""

    code: int
    output: str
    errors: str
    left: set[str]
    says: str
    port: int


# Runs one command after another, each in a fork of its own: importing the server takes longer than a mistake.
FORKS = """
import json, os, signal, sys, traceback
import webhooks.cli.main, webhooks.server.process, webhooks.server.supervisor
for line in sys.stdin:
    folder, seconds, arguments = json.loads(line)
    if os.fork() == 0:
        signal.alarm(seconds)
        os.chdir(folder)
        os.environ["TMPDIR"] = folder
        for number, name in enumerate(("input", "output", "errors")):
            os.dup2(os.open(name, os.O_RDWR), number)
        try:
            webhooks.cli.main.main(arguments, prog_name="webhooks")
        except SystemExit as end:
            os._exit(end.code)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.fixture(scope="module")
def failures(issued: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Failure]]:
    """All mistakes, made one after another."""
    folder = tmp_path_factory.mktemp("mistakes")
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        subprocess.Popen(
            [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as forks,
    ):
        port = taken.getsockname()[1]
        yield {
            name: make(mistake, folder / name.replace("/", ""), port, issued, forks)
            for name, mistake in MISTAKES.items()
        }
        assert forks.stdin is not None
        forks.stdin.close()


def make(mistake: Mistake, folder: Path, taken: int, issued: Path, forks: subprocess.Popen[str]) -> Failure:
    """Make a mistake."""
    port = free_port()
    furnish(folder, mistake, issued)
    named = {
        "TAKEN": taken,
        "PORT": port,
        "CERTIFICATE": issued / "tls.pem",
        "KEY": issued / "tls-key.pem",
        "OTHERS": issued / "ca-key.pem",
    }
    usual = ("--host", "127.0.0.1", "--port", port, "--ops-port", 0, "--policies", mistake.given)
    arguments = ["serve", *(str(named.get(str(option), option)) for option in (*usual, *mistake.options))]
    before = files(folder)
    assert forks.stdin is not None
    assert forks.stdout is not None
    print(json.dumps([str(folder), SECONDS, arguments]), file=forks.stdin, flush=True)
    code = int(forks.stdout.readline())
    output, errors = ((folder / name).read_text() for name in ("output", "errors"))
    return Failure(
        code,
        output,
        errors,
        files(folder) - before,
        mistake.says.replace("TAKEN", str(taken)),
        port,
    )


def furnish(folder: Path, mistake: Mistake, issued: Path) -> None:
    """A folder with what mistakes are made with."""
    (folder / "empty").mkdir(parents=True)
    (folder / "input").write_text("secret\n")  # were a password asked for
    (folder / "output").touch()
    (folder / "errors").touch()
    text = mistake.policies
    (folder / "policies.py").write_bytes(text if isinstance(text, bytes) else text.encode())
    if mistake.more is not None:
        (folder / "more.py").write_text(mistake.more)
    key = serialization.load_pem_private_key((issued / "tls-key.pem").read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"secret")
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "locked.pem").write_bytes(key.private_bytes(pem, form, locked))


def files(folder: Path) -> set[str]:
    found = {str(file.relative_to(folder)) for file in folder.rglob("*")}
    return {name for name in found if "__pycache__" not in name}


def test_mistakes_in_an_admission_configuration_are_all_told(tmp_path: Path) -> None:
    """A line each, as editors read them."""
    file = tmp_path / "admission.yaml"
    file.write_text("kind: AdmissionConfigurations\nplugins:\n- name: Nobody\n  pth: x\n")
    for workers in (1, 2):
        command = webhooks("serve", "--admission-config", file, "--workers", workers, "--port", 0, "--ops-port", 0)
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.splitlines() == [
            f"webhooks: {file}:1:1: apiVersion: Required value",
            f'webhooks: {file}:1:7: kind: Unsupported value: "AdmissionConfigurations": '
            'supported values: "AdmissionConfiguration"',
            f'webhooks: {file}:3:9: plugins[0].name: Unsupported value: "Nobody": supported values: "EventRateLimit"',
            f"webhooks: {file}:4:3: plugins[0].pth: Forbidden: unknown field; did you mean path?",
        ]
        assert [each.name for each in tmp_path.iterdir()] == ["admission.yaml"]


@pytest.mark.parametrize(
    ("workers", "says"),
    [
        (1, r"webhooks: \S*policies\.py:5: policy 'allows' cannot be isolated: \S*policies\.py:2: AssertionError:\n"),
        (2, r"({.*could not start: \S*policies\.py:5: policy 'allows' .*}\n)+webhooks: a worker did not start; .*\n"),
    ],
)
def test_an_isolated_policy_that_cannot_be_is_a_mistake(workers: int, says: str, tmp_path: Path) -> None:
    file = tmp_path / "policies.py"
    isolated = POLICY.replace('"pods"', '"pods", isolation=True')
    file.write_text(f"import sys\nassert 'webhooks.engine.process_worker' not in sys.orig_argv\n{isolated}")
    command = webhooks("serve", "--policies", file, "--workers", workers, "--port", 0, "--ops-port", 0)
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.fullmatch(says, ended.stderr), ended.stderr


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, failures: dict[str, Failure]) -> None:
    failure = failures[name]
    assert failure.output == ""
    assert len(failure.errors.splitlines()) == 1, failure.errors
    assert re.search(failure.says, failure.errors), failure.errors
    assert failure.errors.startswith("webhooks: ")
    assert failure.errors.removesuffix("\n").isprintable()
    assert failure.code == 2
    assert failure.left == set()
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


def test_nobody_can_keep_the_process_for_ever(besieged: Server) -> None:
    """The last of these tests, since those reviews have ten seconds to end."""
    assert besieged.wait() == 0
