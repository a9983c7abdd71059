"""Reads kubeconfigs: clusters, users and contexts. Insecure and obsolete settings are rejected."""

import base64
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv6Address
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from webhooks.cluster.credentials import Credentials, ExecPlugin, check_token, read_file
from webhooks.config import strict_yaml
from webhooks.config.validation import field_error
from webhooks.errors import ClusterError, ConfigurationError

_URL = re.compile("[!-~]+")
_HOST = re.compile(r"(?!.{254})[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")


def _to_kebab_case(name: str) -> str:
    return name.replace("_", "-")


class _Model(BaseModel):
    """A part of a kubeconfig. Unknown fields are ignored: they are for other clients."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, alias_generator=_to_kebab_case)


def _check_string(value: Any) -> Any:
    """Reject a secret that is not a string, with an error that does not contain it."""
    if value is not None and not isinstance(value, str):
        raise field_error("Invalid value", "must be a string: put it in quotes", "")
    return value


_Secret: TypeAlias = Annotated[str, BeforeValidator(_check_string)]


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
    impersonated_user: Any = Field(default=None, alias="as")


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


@dataclass(frozen=True)
class Cluster:
    """A cluster of a kubeconfig."""

    entry: _Cluster
    file: Path

    @property
    def server(self) -> str:
        """The URL of its API server."""
        return self.entry.server.rstrip("/")

    @property
    def tls_server_name(self) -> str | None:
        """The name in its certificate; None for the host of the URL."""
        return self.entry.tls_server_name

    @property
    def proxy_url(self) -> str | None:
        """The proxy; None for the proxy of the environment."""
        return self.entry.proxy_url

    def read_ca(self) -> bytes | None:
        """Return the CAs of its certificate (PEM); None for the CAs of this host."""
        return _read_data(self.entry.certificate_authority_data, self.entry.certificate_authority, self.file)


@dataclass(frozen=True)
class ResolvedContext:
    """The cluster and the credentials of a context."""

    cluster: Cluster
    credentials: Credentials


@dataclass(frozen=True)
class Kubeconfig:
    """The merged contents of kubeconfigs. The first file that defines a name takes precedence."""

    files: tuple[Path, ...]
    clusters: dict[str, Cluster]
    users: dict[str, tuple[_User, Path]]
    contexts: dict[str, _Context]
    current_context: str

    @classmethod
    def read(cls, files: Iterable[Path]) -> "Kubeconfig":
        """Read and merge kubeconfigs. Missing files are ignored if at least one file exists.

        Raises:
            ClusterError: no file exists, or one is not a kubeconfig.
        """
        paths = tuple(files)
        present = [path for path in paths if path.is_file()]
        if not present:
            raise ClusterError(f"{', '.join(map(str, paths))}: no such file")
        merged = cls(paths, {}, {}, {}, "")
        for path in present:
            merged = merged._merge(path)
        return merged

    def _merge(self, path: Path) -> "Kubeconfig":
        try:
            config = strict_yaml.read(path).read(_Config)
        except ConfigurationError as error:
            raise ClusterError(str(error)) from None
        clusters = {entry.name: Cluster(entry.cluster, path) for entry in config.clusters or ()}
        users = {entry.name: (entry.user or _User(), path) for entry in config.users or ()}
        contexts = {entry.name: entry.context for entry in config.contexts or ()}
        return replace(
            self,
            clusters=clusters | self.clusters,
            users=users | self.users,
            contexts=contexts | self.contexts,
            current_context=self.current_context or config.current_context,
        )

    def resolve(self, context: str | None) -> ResolvedContext:
        """Return the cluster and the credentials of a context.

        Args:
            context: the name of the context; None for the current context.

        Raises:
            ClusterError: the context does not exist, is incomplete, or has settings that are rejected.
        """
        location, name = ", ".join(map(str, self.files)), context or self.current_context
        if not name:
            raise ClusterError(f"{location}: no current context: give --context, one of {_list(self.contexts)}")
        entry = _find(self.contexts, name, "context", location)
        cluster = _find(self.clusters, entry.cluster, "cluster", location)
        _check_cluster(cluster, f"{location}: cluster {entry.cluster!r}")
        if not entry.user:
            return ResolvedContext(cluster, Credentials())
        user, file = _find(self.users, entry.user, "user", location)
        return ResolvedContext(cluster, _read_credentials(user, file, f"{location}: user {entry.user!r}"))


T = TypeVar("T")


def _find(entries: dict[str, T], name: str, kind: str, location: str) -> T:
    if name not in entries:
        raise ClusterError(f"{location}: no {kind} {name!r}; it has {_list(entries)}")
    return entries[name]


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _check_cluster(cluster: Cluster, location: str) -> None:
    """Check the settings of a cluster. Errors do not contain URLs, which may have a password."""
    if cluster.entry.insecure_skip_tls_verify:
        raise ClusterError(f"{location}: insecure-skip-tls-verify is not supported: set certificate-authority")
    url = _parse_url(cluster.server, ("https",))
    if url is None or url.query or url.fragment:
        raise ClusterError(f"{location}: server must be an https:// URL with a host, an optional port and path")
    if "@" in url.netloc:
        raise ClusterError(f"{location}: server must not contain a user or a password: set a user of the context")
    if cluster.proxy_url is not None and _parse_url(cluster.proxy_url, ("http", "https")) is None:
        raise ClusterError(f"{location}: proxy-url must be an http:// or https:// URL with a host")
    if cluster.tls_server_name is not None and not _HOST.fullmatch(cluster.tls_server_name):
        raise ClusterError(f"{location}: tls-server-name must be a host name")


def _parse_url(url: str, schemes: Collection[str]) -> SplitResult | None:
    """Return the parts of a URL with a valid host; None for anything else."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if "[" in parts.netloc:
            IPv6Address(host.partition("%")[0])
        is_valid = _URL.fullmatch(url) and parts.scheme in schemes and parts.port != 0
    except ValueError:
        return None
    return parts if is_valid and ("[" in parts.netloc or _HOST.fullmatch(host)) else None


def _read_credentials(user: _User, file: Path, location: str) -> Credentials:
    if user.username is not None or user.password is not None or user.auth_provider is not None:
        raise ClusterError(
            f"{location}: passwords and auth providers are not supported: set a certificate, a token or exec"
        )
    if user.impersonated_user is not None:
        raise ClusterError(f"{location}: impersonation is not supported: remove `as`")
    plugin = None
    if user.exec is not None:
        variables = {variable.name: variable.value for variable in user.exec.env or ()}
        command = (user.exec.command, *(user.exec.args or ()))
        plugin = ExecPlugin(command, variables, user.exec.api_version, file.parent)
    return Credentials(
        _read_data(user.client_certificate_data, user.client_certificate, file),
        _read_data(user.client_key_data, user.client_key, file),
        None if user.token is None else check_token(user.token, location),
        None if user.token_file is None else file.parent / user.token_file,
        plugin,
    )


def _read_data(data: str | None, path: str | None, file: Path) -> bytes | None:
    """Return embedded data, or else the content of a file. Relative paths start at the folder of the kubeconfig."""
    if data is None:
        return None if path is None else read_file(file.parent / path)
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        raise ClusterError(f"{file}: embedded certificates and keys must be base64") from None
