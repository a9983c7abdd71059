"""Credentials for a cluster: client certificates, tokens, and plugins that provide them (client-go credential plugins).

No error message contains a secret.
"""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from webhooks.errors import ClusterError, printable, reason_for, unreadable

_PLUGIN_TIMEOUT = 60.0  # seconds; a plugin may wait for a login in a browser
_REFRESH_MARGIN = 10.0  # seconds before the expiry of credentials
_TOKEN = re.compile("[!-~]+")  # the characters of a header value, without spaces


@dataclass
class Credentials:
    """Credentials of a user of a cluster.

    Attributes:
        certificate: the client certificate with its chain (PEM).
        key: its private key (PEM).
        token: a bearer token.
        token_file: a file with a bearer token, which may change.
        plugin: a plugin that provides the credentials.
    """

    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    plugin: "ExecPlugin | None" = None

    def refresh(self) -> "Credentials":
        """Return the credentials to use now. They are a different object if the plugin provided new ones.

        Raises:
            ClusterError: the plugin failed.
        """
        return self if self.plugin is None else self.plugin.get_credentials()

    def read_token(self) -> str | None:
        """Return the bearer token to use now; None if these credentials contain none.

        Raises:
            ClusterError: the file cannot be read, or its content is not a token.
        """
        if self.token_file is not None:
            return check_token(read_file(self.token_file).decode(errors="replace").strip(), str(self.token_file))
        return self.token


@dataclass
class ExecPlugin:
    """A program that provides credentials.

    Attributes:
        command: the program and its arguments.
        variables: environment variables, in addition to those of this process.
        api_version: the version of ExecCredential.
        folder: the folder of a program with a relative path.
    """

    command: Sequence[str] = field(repr=False)  # its arguments may be secrets
    variables: dict[str, str] = field(repr=False)
    api_version: str
    folder: Path
    _credentials: Credentials | None = field(default=None, init=False, repr=False)
    _expiry: datetime | None = field(default=None, init=False, repr=False)

    def get_credentials(self) -> Credentials:
        """Return the credentials. The program runs again before they expire.

        Raises:
            ClusterError: the program failed, or its output is invalid.
        """
        if self._credentials is None or self._is_expiring():
            self._credentials, self._expiry = self._parse(self._run())
        return self._credentials

    def _is_expiring(self) -> bool:
        return self._expiry is not None and (self._expiry - datetime.now(UTC)).total_seconds() < _REFRESH_MARGIN

    def _run(self) -> bytes:
        program, *arguments = self.command
        path = str(self.folder / program) if "/" in program else program
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        name = f"the credential plugin {printable(program)}"
        try:
            result = subprocess.run(  # noqa: S603  # the kubeconfig requests it
                [path, *arguments],
                env={**os.environ, **self.variables, "KUBERNETES_EXEC_INFO": json.dumps(info)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PLUGIN_TIMEOUT,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            # The output may contain secrets.
            raise ClusterError(
                f"{name} failed with exit code {error.returncode} and {len(error.stderr)} bytes on standard error: run "
                "it to see them"
            ) from None
        except subprocess.TimeoutExpired:
            raise ClusterError(f"{name} did not finish within {_PLUGIN_TIMEOUT:g} s") from None
        except OSError as error:
            raise ClusterError(f"{name} cannot be run: {reason_for(error)}") from None
        except ValueError:  # its message may contain a variable
            raise ClusterError(f"{name} cannot be run: its command or a variable has a null byte") from None
        return result.stdout

    def _parse(self, output: bytes) -> tuple[Credentials, datetime | None]:
        """Return the credentials and their expiry."""
        name = f"the credential plugin {printable(self.command[0])}"
        try:
            return _parse_status(json.loads(output)["status"], name)
        except (ValueError, LookupError, AttributeError, TypeError):
            raise ClusterError(
                f"{name} returned an invalid output: it must be an ExecCredential with a status"
            ) from None


def _parse_status(status: Any, name: str) -> tuple[Credentials, datetime | None]:
    """Return the credentials of an ExecCredential, and their expiry. Raises various exceptions if it is invalid."""
    certificate, key, token = (status.get(key) for key in ("clientCertificateData", "clientKeyData", "token"))
    credentials = Credentials(
        None if certificate is None else certificate.encode(),
        None if key is None else key.encode(),
        None if token is None else check_token(token, name),
    )
    timestamp = status.get("expirationTimestamp")
    expiry = None if timestamp is None else datetime.fromisoformat(timestamp)
    if expiry is not None and expiry.tzinfo is None:
        raise ValueError("a time without an offset")
    return credentials, expiry


def check_token(token: str, location: str) -> str:
    """Return a token that can be in a header.

    Raises:
        ClusterError: it cannot; the message has the location, not the token.
    """
    if not _TOKEN.fullmatch(token):
        raise ClusterError(f"{location}: the token must be printable ASCII without spaces, and not empty")
    return token


def read_file(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        ClusterError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise ClusterError(str(unreadable(path, error))) from None
