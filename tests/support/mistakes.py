"""Mistakes of users that keep a server from starting."""

import json
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from .servers import SECONDS, free_port

POLICY = """\
from webhooks import *

@validating("pods")
def allows(review, *, labels: list[str] = ["owner"]):
    return Allow()
"""


@dataclass(frozen=True)
class Mistake:
    """A mistake of a user.

    Attributes:
        message: a pattern of the error message.
        options: further options of the command.
        policies: the content of ``policies.py``.
        more: the content of a second policy file; None for none.
        source: the value of ``--policies``.
    """

    message: str
    options: tuple[object, ...] = ()
    policies: str | bytes = POLICY
    more: str | None = None
    source: str = "policies.py"


MISTAKES = {
    "invalid Python": Mistake(r"policies\.py:3: not valid Python: ", policies="from webhooks import *\n\ndef oops(:\n"),
    "invalid UTF-8": Mistake(r"policies\.py(:\d+)?: not valid Python: ", policies=b'x = 1\ny = "\xff"\n'),
    "a zero byte": Mistake(r"policies\.py", policies=b"x = 1\0\n"),
    "raises": Mistake(r"policies\.py:2: ZeroDivisionError: ", policies="x = 1\ny = 1 / 0\n"),
    "raises many lines": Mistake(
        r"policies\.py:1: ValueError: a b c", policies='raise ValueError("a\\nb\\r\\n\\tc")\n'
    ),
    "raises with control characters": Mistake(
        r"policies\.py:1: ValueError: ", policies='raise ValueError("a\\x1b[31mb\\x85c")\n'
    ),
    "exits": Mistake(r"policies\.py:2: SystemExit: 0", policies="import sys\nsys.exit(0)\n"),
    "an unknown module": Mistake(r"policies\.py:1: ModuleNotFoundError: .*nothing", policies="import nothing\n"),
    "recurses": Mistake(r"policies\.py:1: RecursionError: ", policies="def f(): f()\nf()\n"),
    "no policies": Mistake(r"policies\.py: no policies", policies="x = 1\n"),
    "no such file": Mistake(r"nothing\.py: no such file", source="nothing.py"),
    "an empty folder": Mistake(r"empty: no policy files", source="empty"),
    "an unknown library name": Mistake(r"library:nothing: .*`webhooks library` lists them", source="library:nothing"),
    "a path in a library name": Mistake(r"library:\.\./x: ", source="library:../x"),
    "a bad resource": Mistake(r"policies\.py:3: .*'Pods'", policies=POLICY.replace('"pods"', '"Pods"')),
    "a bad signature": Mistake(r"policies\.py:3: .*'allows'", policies=POLICY.replace("*, ", "")),
    "a parameter of the wrong type": Mistake(
        r"policies\.py:[34]: policy 'allows', parameter 'labels': ", policies=POLICY.replace('["owner"]', '"owner"')
    ),
    "a required parameter": Mistake(
        r"policies\.py:[34]: policy 'allows': .*'labels'", policies=POLICY.replace(' = ["owner"]', "")
    ),
    "a parameter of an unknown type": Mistake(
        r"policies\.py:[34]: policy 'allows', parameter 'labels': .*Labels",
        policies=POLICY.replace("list[str]", '"Labels"'),
    ),
    "a parameter of an unsupported type": Mistake(
        r"policies\.py:[34]: policy 'allows', parameter 'labels': ",
        policies=POLICY.replace("list[str]", "list[str] | tuple[str, ...]"),
    ),
    "a bound parameter of the wrong type": Mistake(
        r"policies\.py:7: policy 'allows', parameter 'labels': ", policies=POLICY + "\nallows = allows.bind(labels=1)\n"
    ),
    "two policies with one name": Mistake(
        r"more\.py:[34]: .*'allows', the other is at .*policies\.py:[34]",
        more=POLICY,
        options=("--policies", "more.py"),
    ),
    "the same file twice": Mistake(r"policies\.py:[34]: .*'allows'", options=("--policies", "policies.py")),
    "a port in use": Mistake(r"port TAKEN: Address already in use", options=("--port", "TAKEN")),
    "an ops port in use": Mistake(r"port TAKEN: Address already in use", options=("--ops-port", "TAKEN")),
    "one port for both": Mistake(r"--port and --ops-port are both \d+", options=("--ops-port", "PORT")),
    "an address of another host": Mistake(r"192\.0\.2\.1", options=("--host", "192.0.2.1")),
    "an invalid host name": Mistake(r"a{70}", options=("--host", "a" * 70)),
    "no such certificate": Mistake(
        r"nothing\.pem: cannot be read", options=("--tls-cert", "nothing.pem", "--tls-key", "KEY")
    ),
    "an invalid certificate": Mistake(
        r"policies\.py: the certificate or its key .* is invalid",
        options=("--tls-cert", "policies.py", "--tls-key", "KEY"),
    ),
    "an invalid key": Mistake(r"policies\.py", options=("--tls-cert", "CERTIFICATE", "--tls-key", "policies.py")),
    "another key": Mistake(r"ca-key\.pem", options=("--tls-cert", "CERTIFICATE", "--tls-key", "OTHER_KEY")),
    "a key with a password": Mistake(r"locked\.pem", options=("--tls-cert", "CERTIFICATE", "--tls-key", "locked.pem")),
    "a certificate without its key": Mistake(r"--tls-cert and --tls-key", options=("--tls-cert", "CERTIFICATE")),
    "a key without its certificate": Mistake(r"--tls-cert and --tls-key", options=("--tls-key", "KEY")),
    "no such client CA": Mistake(r"nothing\.pem: cannot be read", options=("--client-ca", "nothing.pem")),
    "an invalid client CA": Mistake(r"policies\.py: no valid CA certificates", options=("--client-ca", "policies.py")),
    "a folder that cannot be created": Mistake(r"policies\.py/certs: ", options=("--certs-dir", "policies.py/certs")),
    "no such admission configuration": Mistake(
        r"nothing\.yaml: cannot be read: No such file", options=("--admission-config", "nothing.yaml")
    ),
    "an invalid admission configuration": Mistake(
        r"policies\.py:4:29: not YAML: ", options=("--admission-config", "policies.py")
    ),
    "an admission configuration and invalid Python": Mistake(
        r"policies\.py:1: not valid Python", policies="oops(\n", options=("--admission-config", "nothing.yaml")
    ),
    "two workers, no such admission configuration": Mistake(
        r"nothing\.yaml: cannot be read: ", options=("--workers", 2, "--admission-config", "nothing.yaml")
    ),
    "two workers, invalid Python": Mistake(
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
    """The result of a mistake.

    Attributes:
        code: the exit code.
        output: the standard output.
        errors: the standard error.
        new_files: files that the command created.
        message: a pattern of the expected error message.
        port: the port for reviews.
    """

    code: int
    output: str
    errors: str
    new_files: set[str]
    message: str
    port: int


# Runs commands, each in a fork: importing the server takes longer than a command that fails.
_FORKS = """
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


def run_mistakes(folder: Path, issued: Path) -> dict[str, Failure]:
    """Run ``webhooks serve`` with each mistake.

    Args:
        folder: the folder for files.
        issued: a folder with certificates.
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        subprocess.Popen(
            [sys.executable, "-c", _FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as forks,
    ):
        port = taken.getsockname()[1]
        failures = {
            name: _run(mistake, folder / name.replace("/", ""), port, issued, forks)
            for name, mistake in MISTAKES.items()
        }
        assert forks.stdin is not None
        forks.stdin.close()
    return failures


def _run(mistake: Mistake, folder: Path, taken: int, issued: Path, forks: subprocess.Popen[str]) -> Failure:
    port = free_port()
    _write_files(folder, mistake, issued)
    values = {
        "TAKEN": taken,
        "PORT": port,
        "CERTIFICATE": issued / "tls.pem",
        "KEY": issued / "tls-key.pem",
        "OTHER_KEY": issued / "ca-key.pem",
    }
    options = ("--host", "127.0.0.1", "--port", port, "--ops-port", 0, "--policies", mistake.source, *mistake.options)
    arguments = ["serve", *(str(values.get(str(option), option)) for option in options)]
    before = _files(folder)
    assert forks.stdin is not None
    assert forks.stdout is not None
    print(json.dumps([str(folder), SECONDS, arguments]), file=forks.stdin, flush=True)
    code = int(forks.stdout.readline())
    output, errors = ((folder / name).read_text() for name in ("output", "errors"))
    return Failure(
        code,
        output,
        errors,
        _files(folder) - before,
        mistake.message.replace("TAKEN", str(taken)),
        port,
    )


def _write_files(folder: Path, mistake: Mistake, issued: Path) -> None:
    (folder / "empty").mkdir(parents=True)
    (folder / "input").write_text("secret\n")  # the answer to a prompt for a password
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


def _files(folder: Path) -> set[str]:
    names = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return {name for name in names if "__pycache__" not in name}
