"""Kubeconfigs: where clusters are, and who one is to them. What is not safe in them, or is gone, is refused."""

import base64
import binascii
import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from webhooks.configuration import documents
from webhooks.errors import ClusterError, ConfigurationError

_PATIENCE = 60.0  # seconds that a program has to give credentials; somebody may have to log in
_EARLY = 10.0  # seconds before credentials end that they are asked for again


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class _Model(BaseModel):
    """A part of a kubeconfig, of which others know more."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, alias_generator=_kebab)


class _Cluster(_Model):
    server: str
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _Variable(_Model):
    name: str
    value: str


class _Exec(_Model):
    api_version: str = Field(alias="apiVersion")
    command: str
    args: tuple[str, ...] | None = None
    env: tuple[_Variable, ...] | None = None


class _User(_Model):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = Field(default=None, alias="tokenFile")
    exec: _Exec | None = None
    username: str | None = None
    auth_provider: dict[str, Any] | None = None
    impersonated: Any = Field(default=None, alias="as")


class _Context(_Model):
    cluster: str
    user: str = ""


class _NamedCluster(_Model):
    name: str
    cluster: _Cluster


class _NamedUser(_Model):
    name: str
    user: _User | None = None


class _NamedContext(_Model):
    name: str
    context: _Context


class _Config(_Model):
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None
    current_context: str = ""


@dataclass
class User:
    """What we show a cluster of ourselves.

    Attributes:
        certificate: our certificate with its chain (PEM).
        key: its private key.
        token: a bearer token.
        token_file: the file it is in, which changes.
        program: what gives credentials.
    """

    certificate: bytes | None = None
    key: bytes | None = None
    token: str | None = None
    token_file: Path | None = None
    program: "Program | None" = None

    def bearer(self) -> str | None:
        """The token to send now.

        Raises:
            ClusterError: it cannot be read.
        """
        if self.token_file is not None:
            try:
                return self.token_file.read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ClusterError(f"{self.token_file}: the token cannot be read: {error}") from None
        return self.token

    def ready(self) -> "User":
        """The same with the credentials that its program gives.

        Raises:
            ClusterError: it gives none.
        """
        return self if self.program is None else self.program.user()


@dataclass
class Program:
    """A program that gives credentials, as managed clusters have it.

    Attributes:
        command: the program and its arguments.
        variables: for it, beside our own.
        api_version: of what it says.
        folder: where it is looked for, if it is given with a path.
    """

    command: Sequence[str]
    variables: dict[str, str]
    api_version: str
    folder: Path
    _given: User | None = field(default=None, repr=False)
    _ends: datetime | None = field(default=None, repr=False)

    def user(self) -> User:
        """What it gives; it is asked again when that ends.

        Raises:
            ClusterError: it fails, or says something else.
        """
        now = datetime.now(UTC)
        if self._given is None or (self._ends is not None and (self._ends - now).total_seconds() < _EARLY):
            self._given, self._ends = self._ask()
        return self._given

    def _ask(self) -> tuple[User, datetime | None]:
        program, *arguments = self.command
        path = str(self.folder / program) if "/" in program else program
        asked = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        variables = {**os.environ, **self.variables, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
        try:
            done = subprocess.run(  # noqa: S603  # the kubeconfig's owner has said to
                [path, *arguments],
                env=variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE,
                check=True,
            )
            status = json.loads(done.stdout)["status"]
            ends = status.get("expirationTimestamp")
            certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
            user = User(
                None if certificate is None else certificate.encode(),
                None if key is None else key.encode(),
                status.get("token"),
            )
            return user, None if ends is None else datetime.fromisoformat(ends)
        except subprocess.CalledProcessError as error:
            said = " ".join(error.stderr.decode(errors="replace").split())[:200]
            raise ClusterError(
                f"{program}, which gives credentials, ended with code {error.returncode}: {said}"
            ) from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ClusterError(f"{program}, which gives credentials, does not run: {error}") from None
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            raise ClusterError(f"{program} gives no credentials that can be understood: {error}") from None


@dataclass(frozen=True)
class Cluster:
    """A cluster, as a kubeconfig names it."""

    entry: _Cluster
    file: Path

    @property
    def server(self) -> str:
        """Its URL."""
        return self.entry.server.rstrip("/")

    @property
    def tls_server_name(self) -> str | None:
        """The name of its certificate, where that is another than the URL's."""
        return self.entry.tls_server_name

    @property
    def proxy_url(self) -> str | None:
        """By which it is reached."""
        return self.entry.proxy_url

    def ca(self) -> bytes | None:
        """Who signs its certificate."""
        return _content(self.entry.certificate_authority_data, self.entry.certificate_authority, self.file)


@dataclass(frozen=True)
class Chosen:
    """A context's cluster and user."""

    cluster: Cluster
    user: User


@dataclass(frozen=True)
class Kubeconfig:
    """What one or more kubeconfigs say together: of several that say something of a name, the first counts."""

    files: tuple[Path, ...]
    clusters: dict[str, Cluster]
    users: dict[str, tuple[_User, Path]]
    contexts: dict[str, _Context]
    current: str

    @classmethod
    def read(cls, files: Iterable[Path]) -> "Kubeconfig":
        """Read them; those that are missing say nothing, but not all may be.

        Raises:
            ClusterError: there is none, or one is no kubeconfig.
        """
        told = tuple(files)
        found = cls(told, {}, {}, {}, "")
        there = [file for file in told if file.is_file()]
        if not there:
            raise ClusterError(f"{', '.join(map(str, told))}: no such file")
        for file in there:
            found = found._with(file)
        return found

    def _with(self, file: Path) -> "Kubeconfig":
        try:
            config = documents.read(file).read(_Config)
        except ConfigurationError as error:
            raise ClusterError(str(error)) from None
        clusters = {each.name: Cluster(each.cluster, file) for each in config.clusters or ()}
        users = {each.name: (each.user or _User(), file) for each in config.users or ()}
        contexts = {each.name: each.context for each in config.contexts or ()}
        return replace(
            self,
            clusters=clusters | self.clusters,
            users=users | self.users,
            contexts=contexts | self.contexts,
            current=self.current or config.current_context,
        )

    def chosen(self, context: str | None) -> Chosen:
        """The cluster and user of a context; of the current one unless it is named.

        Raises:
            ClusterError: there is no such context, or it is not complete, or says what is not taken.
        """
        where, name = ", ".join(map(str, self.files)), context or self.current
        if not name:
            raise ClusterError(f"{where}: no current context: give --context, one of {_names(self.contexts)}")
        found = _get(self.contexts, name, "context", where)
        cluster = _get(self.clusters, found.cluster, "cluster", where)
        if cluster.entry.insecure_skip_tls_verify:
            raise ClusterError(
                f"{where}: cluster {found.cluster!r}: insecure-skip-tls-verify is not taken: name its authority"
            )
        if not cluster.server.startswith("https://"):
            raise ClusterError(f"{where}: cluster {found.cluster!r}: its server is no https:// URL: {cluster.server!r}")
        if not found.user:
            return Chosen(cluster, User())
        user, file = _get(self.users, found.user, "user", where)
        return Chosen(cluster, _shown(user, file, f"{where}: user {found.user!r}"))


T = TypeVar("T")


def _get(entries: dict[str, T], name: str, what: str, where: str) -> T:
    if name not in entries:
        raise ClusterError(f"{where}: no {what} {name!r}; it has {_names(entries)}")
    return entries[name]


def _names(entries: Iterable[str]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _shown(user: _User, file: Path, where: str) -> User:
    if user.username is not None or user.auth_provider is not None:
        raise ClusterError(f"{where}: passwords and auth providers are gone: use a certificate, a token or exec")
    if user.impersonated is not None:
        raise ClusterError(f"{where}: being somebody else is not taken: leave `as` out")
    program = None
    if user.exec is not None:
        variables = {each.name: each.value for each in user.exec.env or ()}
        program = Program((user.exec.command, *(user.exec.args or ())), variables, user.exec.api_version, file.parent)
    return User(
        _content(user.client_certificate_data, user.client_certificate, file),
        _content(user.client_key_data, user.client_key, file),
        user.token,
        None if user.token_file is None else file.parent / user.token_file,
        program,
    )


def _content(data: str | None, path: str | None, file: Path) -> bytes | None:
    """What is embedded, or else in a file; paths begin at the kubeconfig's own folder."""
    try:
        if data is not None:
            return base64.b64decode(data, validate=True)
        return None if path is None else (file.parent / path).read_bytes()
    except binascii.Error:
        raise ClusterError(f"{file}: certificates and keys that are embedded are in base64") from None
    except OSError as error:
        raise ClusterError(f"{file.parent / (path or '')}: cannot be read: {error.strerror}") from None
