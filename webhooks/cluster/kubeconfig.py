"""Kubeconfigs: where clusters are, and who one is to them. What is not safe in them, or is gone, is refused."""

import base64
import json
import os
import re
import subprocess
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from ipaddress import IPv6Address
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from webhooks.config import strict_yaml
from webhooks.config.validation import field_error, format_value, quote
from webhooks.errors import ClusterError, ConfigurationError

_PATIENCE = 60.0  # seconds that a program has to give credentials; somebody may have to log in
_EARLY = 10.0  # seconds before credentials end that they are asked for again
_TOKEN = re.compile("[!-~]+")  # what can stand in a header
_URL = re.compile("[!-~]+")
_HOST = re.compile(r"(?!.{254})[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class _Model(BaseModel):
    """A part of a kubeconfig, of which others know more."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, alias_generator=_kebab)


def _text(value: Any) -> Any:
    """A secret that is no text is not shown in what is wrong with it."""
    if value is not None and not isinstance(value, str):
        raise field_error("Invalid value", "must be a text: put it in quotes", "")
    return value


_Secret: TypeAlias = Annotated[str, BeforeValidator(_text)]


class _Cluster(_Model):
    server: str
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _Variable(_Model):
    name: str
    value: _Secret


class _Exec(_Model):
    api_version: str = Field(alias="apiVersion")
    command: str
    args: tuple[_Secret, ...] | None = None
    env: tuple[_Variable, ...] | None = None


class _User(_Model):
    client_certificate: str | None = None
    client_certificate_data: _Secret | None = None
    client_key: str | None = None
    client_key_data: _Secret | None = None
    token: _Secret | None = None
    token_file: str | None = Field(default=None, alias="tokenFile")
    exec: _Exec | None = None
    username: Any = None
    password: Any = None
    auth_provider: Any = None
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
    program: "ExecCredential | None" = None

    def bearer(self) -> str | None:
        """The token to send now.

        Raises:
            ClusterError: it cannot be read.
        """
        if self.token_file is not None:
            return _token(_read(self.token_file).decode(errors="replace").strip(), str(self.token_file))
        return self.token

    def ready(self) -> "User":
        """The same with the credentials that its program gives.

        Raises:
            ClusterError: it gives none.
        """
        return self if self.program is None else self.program.user()


@dataclass
class ExecCredential:
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
        except subprocess.CalledProcessError as error:
            # What it says may hold what it was to keep.
            raise ClusterError(
                f"{program}, which gives credentials, ended with code {error.returncode}, and said "
                f"{len(error.stderr)} bytes on standard error: run it by hand to see them"
            ) from None
        except subprocess.TimeoutExpired:
            raise ClusterError(f"{program}, which gives credentials, has not ended in {_PATIENCE:g} s") from None
        except (OSError, ValueError) as error:
            reason = (
                error.strerror if isinstance(error, OSError) else None
            ) or "its name or a variable has a null byte"
            raise ClusterError(f"{format_value(program)}, which gives credentials, does not run: {reason}") from None
        try:
            return _given(json.loads(done.stdout)["status"], program)
        except (ValueError, LookupError, AttributeError, TypeError):
            raise ClusterError(
                f"{program} gives no credentials that can be understood: it is to write an ExecCredential with a status"
            ) from None


def _given(status: Any, program: str) -> tuple[User, datetime | None]:
    """The credentials of an ExecCredential, and when they end; errors of all kinds where it is none."""
    certificate, key, token = (status.get(name) for name in ("clientCertificateData", "clientKeyData", "token"))
    user = User(
        None if certificate is None else certificate.encode(),
        None if key is None else key.encode(),
        None if token is None else _token(token, program),
    )
    written = status.get("expirationTimestamp")
    ends = None if written is None else datetime.fromisoformat(written)
    if ends is not None and ends.tzinfo is None:
        raise ValueError("a time without an offset")
    return user, ends


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
class ResolvedContext:
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
            config = strict_yaml.read(file).read(_Config)
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

    def chosen(self, context: str | None) -> ResolvedContext:
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
        _check(cluster, f"{where}: cluster {found.cluster!r}")
        if not found.user:
            return ResolvedContext(cluster, User())
        user, file = _get(self.users, found.user, "user", where)
        return ResolvedContext(cluster, _shown(user, file, f"{where}: user {found.user!r}"))


T = TypeVar("T")


def _get(entries: dict[str, T], name: str, what: str, where: str) -> T:
    if name not in entries:
        raise ClusterError(f"{where}: no {what} {name!r}; it has {_names(entries)}")
    return entries[name]


def _names(entries: Iterable[str]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _check(cluster: Cluster, where: str) -> None:
    """Refuse where nobody can be asked; what stands there is not shown, as it may hold a password."""
    url = _parts(cluster.server, ("https",))
    if url is None or url.query or url.fragment:
        raise ClusterError(f"{where}: its server is no https:// URL of a host, with a port and a path at most")
    if "@" in url.netloc:
        raise ClusterError(f"{where}: its server has a user or a password in its URL, which is not taken: use a user")
    if cluster.proxy_url is not None and _parts(cluster.proxy_url, ("http", "https")) is None:
        raise ClusterError(f"{where}: its proxy-url is no http:// or https:// URL of a host")
    if cluster.tls_server_name is not None and not _HOST.fullmatch(cluster.tls_server_name):
        raise ClusterError(f"{where}: its tls-server-name is no name of a host")


def _parts(url: str, schemes: Collection[str]) -> SplitResult | None:
    """A URL of a host in its parts; None for anything else."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if "[" in parts.netloc:
            IPv6Address(host.partition("%")[0])
        good = _URL.fullmatch(url) and parts.scheme in schemes and parts.port != 0
    except ValueError:
        return None
    return parts if good and ("[" in parts.netloc or _HOST.fullmatch(host)) else None


def _token(text: str, where: str) -> str:
    """A token that a header can hold; what it is is not shown."""
    if not _TOKEN.fullmatch(text):
        raise ClusterError(f"{where}: the token is empty, or has what no header can hold: spaces, line ends, no ASCII")
    return text


def _shown(user: _User, file: Path, where: str) -> User:
    if user.username is not None or user.password is not None or user.auth_provider is not None:
        raise ClusterError(f"{where}: passwords and auth providers are gone: use a certificate, a token or exec")
    if user.impersonated is not None:
        raise ClusterError(f"{where}: being somebody else is not taken: leave `as` out")
    program = None
    if user.exec is not None:
        variables = {each.name: each.value for each in user.exec.env or ()}
        program = ExecCredential(
            (user.exec.command, *(user.exec.args or ())), variables, user.exec.api_version, file.parent
        )
    return User(
        _content(user.client_certificate_data, user.client_certificate, file),
        _content(user.client_key_data, user.client_key, file),
        None if user.token is None else _token(user.token, where),
        None if user.token_file is None else file.parent / user.token_file,
        program,
    )


def _content(data: str | None, path: str | None, file: Path) -> bytes | None:
    """What is embedded, or else in a file; paths begin at the kubeconfig's own folder."""
    if data is None:
        return None if path is None else _read(file.parent / path)
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        raise ClusterError(f"{file}: certificates and keys that are embedded are in base64") from None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        name = str(file) if str(file).isprintable() else quote(str(file))
        raise ClusterError(f"{name}: cannot be read: {reason}") from None
