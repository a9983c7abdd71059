"""The configuration: ``eventratelimit.admission.{svc,k8s}.io/v1alpha1`` ``Configuration``, with additional fields."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from webhooks.kube.api_groups import api_versions
from webhooks.plugins import Model, duration, field_error, one_of
from webhooks.plugins.event_rate_limit.token_bucket import Limit, LimitType

_DEFAULT_CACHE_SIZE = 4096
_MAX_INT32 = 2**31 - 1

_Positive = Annotated[int, Field(gt=0, le=_MAX_INT32)]


class LimitSettings(Model):
    """A limit, as in the configuration of the API server's own plugin."""

    type: Annotated[LimitType, BeforeValidator(lambda type_: "Server" if type_ == "server" else type_)]
    qps: _Positive
    burst: _Positive
    cache_size: Annotated[int, Field(ge=-_MAX_INT32 - 1, le=_MAX_INT32)] = 0

    @field_validator("cache_size")
    @classmethod
    def _check_cache_size(cls, size: int, info: ValidationInfo) -> int:
        if size < 0 and info.data.get("type") != "Server":
            raise field_error("Invalid value", "must not be negative")
        return size

    def to_limit(self) -> Limit:
        """Return the limit with the default size of its cache."""
        size = 1 if self.type == "Server" else self.cache_size or _DEFAULT_CACHE_SIZE
        return Limit(self.type, self.qps, self.burst, size)


# What follows the scheme of a URL: a host or path, and the number of a database.
_LOCATIONS = {
    "redis": re.compile(r"[^/?#]+/?([0-9]{1,9})?"),
    "rediss": re.compile(r"[^/?#]+/?([0-9]{1,9})?"),
    "unix": re.compile(r"([^/?#]+@)?/[^?#]+(\?db=[0-9]{1,9})?"),
}
_FORMS = "redis://host:6379/0, rediss://host:6379/0 or unix:///run/redis.sock?db=0"


def _check_url(text: str) -> str:
    """Check a URL, which must not contain a password. An invalid URL is not shown: a password may be anywhere in it."""
    scheme, _, rest = text.partition("://")
    try:
        url = urlsplit(text)
        is_valid = (
            bool(_LOCATIONS[scheme].fullmatch(rest)) and url.port != 0 and bool(url.hostname) == (scheme != "unix")
        )
    except (KeyError, ValueError):
        raise field_error("Invalid value", f"must be like {_FORMS}", "") from None
    if url.password is not None or "password=" in url.query:
        raise field_error("Forbidden", "a password must be in a file: set passwordFile")
    if not is_valid:
        raise field_error("Invalid value", f"must be like {_FORMS}", "")
    return text


def _resolve(path: Path, info: ValidationInfo) -> Path:
    folder: Any = info.context
    assert isinstance(folder, Path)
    return folder / path


_File = Annotated[Path, AfterValidator(_resolve)]


class RedisSettings(Model):
    """The server of the Redis protocol that stores shared limits.

    Attributes:
        password_file: the file with the password; None for a server without one.
        url: ``redis://``, ``rediss://`` (TLS) or ``unix://``; with the user and the number of the database, but without
            a password.
        ca_file: the CAs for the server's certificate (PEM); None for those of the host.
        timeout: the time limit of a decision in seconds; after that, local limits are used.
        prefix: the prefix of all keys.
    """

    password_file: _File | None = None
    url: Annotated[str, AfterValidator(_check_url)]
    ca_file: _File | None = None
    timeout: Annotated[float, *duration(0.001, 1)] = 0.05
    prefix: Annotated[str, Field(pattern="^[A-Za-z0-9._-]{1,64}$")] = "events"

    @field_validator("url")
    @classmethod
    def _check_user(cls, url: str, info: ValidationInfo) -> str:
        if urlsplit(url).username and info.data.get("password_file", url) is None:
            raise field_error("Invalid value", "a user requires a password: set passwordFile", "")
        return url

    @field_validator("ca_file")
    @classmethod
    def _check_tls(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if not info.data.get("url", "rediss:").startswith("rediss:"):
            raise field_error("Forbidden", "only for TLS: use a url that begins with rediss://, or omit caFile")
        return file


class Settings(Model):
    """The configuration. The context of the validation is the folder that relative paths refer to.

    Attributes:
        limits: the limits, which all apply to every event.
        backend: where budgets are stored.
        accept_limits_per_worker: whether each worker may have its own budget in memory.
        redis: the settings of the backend ``redis``; None for other backends.
    """

    api_version: Annotated[str, one_of(api_versions("eventratelimit.admission", "v1alpha1"))]
    kind: Literal["Configuration"]
    limits: Annotated[tuple[LimitSettings, ...], Field(min_length=1)]
    backend: Literal["memory", "redis"] = "memory"
    accept_limits_per_worker: bool = False
    redis: Annotated[RedisSettings | None, Field(validate_default=True)] = None

    @field_validator("redis", mode="before")
    @classmethod
    def _check_redis(cls, redis: Any, info: ValidationInfo) -> Any:
        backend = info.data.get("backend")
        if backend == "memory" and redis is not None:
            raise field_error("Forbidden", "only for backend: redis")
        if backend == "redis" and redis is None:
            raise PydanticKnownError("missing")
        return redis
