"""The configuration, ``eventratelimit.admission.{svc,k8s}.io/v1alpha1`` ``Configuration``, and what we add to it."""

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
_MOST = 2**31 - 1

_Positive = Annotated[int, Field(gt=0, le=_MOST)]


class LimitSettings(Model):
    """One limit, as the specification has it."""

    type: Annotated[LimitType, BeforeValidator(lambda type_: "Server" if type_ == "server" else type_)]
    qps: _Positive
    burst: _Positive
    cache_size: Annotated[int, Field(ge=-_MOST - 1, le=_MOST)] = 0

    @field_validator("cache_size")
    @classmethod
    def _check_cache_size(cls, size: int, info: ValidationInfo) -> int:
        if size < 0 and info.data.get("type") != "Server":
            raise field_error("Invalid value", "must not be negative")
        return size

    @property
    def limit(self) -> Limit:
        """With what is meant by default."""
        size = 1 if self.type == "Server" else self.cache_size or _DEFAULT_CACHE_SIZE
        return Limit(self.type, self.qps, self.burst, size)


# What stands behind the scheme: a place, and the number of a database.
_PLACES = {
    "redis": re.compile(r"[^/?#]+/?([0-9]{1,9})?"),
    "rediss": re.compile(r"[^/?#]+/?([0-9]{1,9})?"),
    "unix": re.compile(r"([^/?#]+@)?/[^?#]+(\?db=[0-9]{1,9})?"),
}
_FORMS = "redis://host:6379/0, rediss://host:6379/0 or unix:///run/redis.sock?db=0"


def _url(text: str) -> str:
    """A URL without a password in it. Of any other nothing is shown: it may have one where nobody looks for it."""
    scheme, _, rest = text.partition("://")
    try:
        url = urlsplit(text)
        fits = bool(_PLACES[scheme].fullmatch(rest)) and url.port != 0 and bool(url.hostname) == (scheme != "unix")
    except (KeyError, ValueError):
        raise field_error("Invalid value", f"must be as {_FORMS}", "") from None
    if url.password is not None or "password=" in url.query:
        raise field_error("Forbidden", "a password belongs into a file, see passwordFile")
    if not fits:
        raise field_error("Invalid value", f"must be as {_FORMS}", "")
    return text


def _file(path: Path, info: ValidationInfo) -> Path:
    folder: Any = info.context
    assert isinstance(folder, Path)
    return folder / path


_File = Annotated[Path, AfterValidator(_file)]


class RedisSettings(Model):
    """Where budgets are shared.

    Attributes:
        password_file: holds the password; None for a store that asks for none.
        url: ``redis://``, ``rediss://`` (TLS) or ``unix://``, with a user and the number of a database if need be, and
            without a password.
        ca_file: the authorities of the store's certificate (PEM); None for the system's.
        timeout: seconds that the store has for a decision; local limits take over then.
        prefix: what keys in the store begin with.
    """

    password_file: _File | None = None
    url: Annotated[str, AfterValidator(_url)]
    ca_file: _File | None = None
    timeout: Annotated[float, *duration(0.001, 1)] = 0.05
    prefix: Annotated[str, Field(pattern="^[A-Za-z0-9._-]{1,64}$")] = "events"

    @field_validator("url")
    @classmethod
    def _check_user(cls, url: str, info: ValidationInfo) -> str:
        if urlsplit(url).username and info.data.get("password_file", url) is None:
            raise field_error("Invalid value", "a user needs a password, see passwordFile", "")
        return url

    @field_validator("ca_file")
    @classmethod
    def _check_tls(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if not info.data.get("url", "rediss:").startswith("rediss:"):
            raise field_error("Forbidden", "there is no certificate to check: the url does not begin with rediss://")
        return file


class Settings(Model):
    """The whole configuration. It is read with the folder that relative paths are relative to as its context.

    Attributes:
        limits: all of which an event has to pass.
        backend: where the budgets are.
        accept_limits_per_worker: of budgets in memory, that each worker has its own.
        redis: set for that backend, and for no other.
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
