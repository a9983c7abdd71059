"""Tests of the configuration of EventRateLimit."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from webhooks.config.strict_yaml import parse
from webhooks.errors import ConfigurationError
from webhooks.plugins.event_rate_limit.settings import RedisSettings, Settings
from webhooks.plugins.event_rate_limit.token_bucket import Limit

from ...support.builders import GROUPS

FILE = Path("/etc/webhooks/limits.yaml")
SERVER = {"type": "Server", "qps": 5, "burst": 10}
Json = dict[str, Any]


def configuration(*limits: Any, **fields: Any) -> Json:
    """A configuration; `...` as the value of a field omits it."""
    tree = {
        "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1",
        "kind": "Configuration",
        "limits": list(limits) or [SERVER],
        **fields,
    }
    return {key: value for key, value in tree.items() if value is not ...}


def read(tree: Any) -> Settings:
    return parse(yaml.safe_dump(tree).encode(), FILE).read(Settings, FILE.parent)


def errors(tree: Any) -> list[str]:
    """The errors without their places, sorted."""
    with pytest.raises(ConfigurationError) as raised:
        read(tree)
    return sorted(line.split(": ", 1)[1] for line in str(raised.value).split("\n"))


@pytest.mark.parametrize("group", GROUPS)
def test_both_names_of_the_group(group: str) -> None:
    tree = configuration(apiVersion=f"eventratelimit.admission.{group}/v1alpha1")
    assert [each.to_limit() for each in read(tree).limits] == [Limit("Server", 5, 10, 1)]


LIMITS: dict[str, tuple[Json, Limit]] = {
    "of the server": (SERVER, Limit("Server", 5, 10, 1)),
    "as the specification writes it": ({**SERVER, "type": "server"}, Limit("Server", 5, 10, 1)),
    "a cache of the server": ({**SERVER, "cacheSize": 50}, Limit("Server", 5, 10, 1)),
    "a negative cache of the server": ({**SERVER, "cacheSize": -1}, Limit("Server", 5, 10, 1)),
    "of namespaces": ({"type": "Namespace", "qps": 1, "burst": 1}, Limit("Namespace", 1, 1, 4096)),
    "no cache": ({"type": "User", "qps": 1, "burst": 1, "cacheSize": 0}, Limit("User", 1, 1, 4096)),
    "null is not set": ({"type": "User", "qps": 1, "burst": 1, "cacheSize": None}, Limit("User", 1, 1, 4096)),
    "a small cache": ({"type": "User", "qps": 1, "burst": 1, "cacheSize": 1}, Limit("User", 1, 1, 1)),
    "the most": (
        {"type": "SourceAndObject", "qps": 2**31 - 1, "burst": 2**31 - 1, "cacheSize": 2**31 - 1},
        Limit("SourceAndObject", 2**31 - 1, 2**31 - 1, 2**31 - 1),
    ),
}


@pytest.mark.parametrize(("tree", "limit"), LIMITS.values(), ids=LIMITS)
def test_limits(tree: Json, limit: Limit) -> None:
    assert [each.to_limit() for each in read(configuration(tree)).limits] == [limit]


def test_types_may_repeat_and_keep_their_order() -> None:
    types = ["User", "Server", "User", "Namespace", "Server"]
    trees = [{"type": type_, "qps": number + 1, "burst": 1} for number, type_ in enumerate(types)]
    limits = [each.to_limit() for each in read(configuration(*trees)).limits]
    assert [(limit.type, limit.qps) for limit in limits] == list(zip(types, range(1, 6), strict=True))


TYPES = 'supported values: "Server", "Namespace", "User", "SourceAndObject"'
TOO_MUCH = "must be less than or equal to 2147483647"
WRONG_NUMBERS: list[tuple[Any, str]] = [
    (0, "Invalid value: 0: must be positive"),
    (-1, "Invalid value: -1: must be positive"),
    (2**31, f"Invalid value: 2147483648: {TOO_MUCH}"),
    (-(2**31) - 1, "Invalid value: -2147483649: must be positive"),
    (2**63, f"Invalid value: 9223372036854775808: {TOO_MUCH}"),
    (10**40, f"Invalid value: {10**40}: {TOO_MUCH}"),
    (0.5, "Invalid value: 0.5: must be an integer"),
    (5.0, "Invalid value: 5.0: must be an integer"),
    (True, "Invalid value: true: must be an integer"),
    ("5", 'Invalid value: "5": must be an integer'),
    ([5], "Invalid value: a list: must be an integer"),
    ({}, "Invalid value: a mapping: must be an integer"),
    (None, "Required value"),
]


@pytest.mark.parametrize(("number", "what"), WRONG_NUMBERS, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("name", ["qps", "burst"])
def test_wrong_numbers(name: str, number: Any, what: str) -> None:
    assert errors(configuration(SERVER, {**SERVER, name: number})) == [f"limits[1].{name}: {what}"]


WRONG_SIZES = [
    (-1, "Invalid value: -1: must not be negative"),
    (2**31, f"Invalid value: 2147483648: {TOO_MUCH}"),
    (1.5, "Invalid value: 1.5: must be an integer"),
    (False, "Invalid value: false: must be an integer"),
]


@pytest.mark.parametrize(("size", "what"), WRONG_SIZES)
@pytest.mark.parametrize("type_", ["Namespace", "User", "SourceAndObject"])
def test_wrong_cache_sizes(type_: str, size: Any, what: str) -> None:
    assert errors(configuration({**SERVER, "type": type_, "cacheSize": size})) == [f"limits[0].cacheSize: {what}"]


@pytest.mark.parametrize("type_", ["SERVER", "namespace", "", "Pod", "sourceAndObject", " Server"])
def test_other_types_are_rejected(type_: str) -> None:
    expected = f'limits[0].type: Unsupported value: "{type_}": {TYPES}'
    assert errors(configuration({**SERVER, "type": type_})) == [expected]


REDIS = {"url": "redis://limits.example.com"}
TLS_ONLY = "only for TLS: use a url that begins with rediss://, or omit caFile"
CONFIGURATIONS: dict[str, tuple[Any, list[str]]] = {
    "nothing": (
        {},
        ["apiVersion: Required value", 'kind: Required value: must be "Configuration"', "limits: Required value"],
    ),
    "no limits": (configuration(limits=...), ["limits: Required value"]),
    "an empty list": (configuration(limits=[]), ["limits: Required value: must not be empty"]),
    "no list": (configuration(limits={"type": "Server"}), ["limits: Invalid value: a mapping: must be a list"]),
    "no limit": (
        configuration(limits=[None, 5]),
        [f"limits[{n}]: Invalid value: {v}: must be a mapping" for n, v in ((0, "null"), (1, 5))],
    ),
    "another kind": (
        configuration(kind="Policy"),
        ['kind: Unsupported value: "Policy": supported values: "Configuration"'],
    ),
    "a field of another spelling": (
        configuration({**SERVER, "QPS": 5}, backend="memory", Redis=5),
        ["Redis: Forbidden: unknown field; did you mean redis?", "limits[0].QPS: Forbidden: unknown field"],
    ),
    "an unknown backend": (
        configuration(backend="Redis"),
        ['backend: Unsupported value: "Redis": supported values: "memory", "redis"'],
    ),
    "a store for another backend": (configuration(redis=REDIS), ["redis: Forbidden: only for backend: redis"]),
    "an invalid store for another backend": (
        configuration(redis={"url": 5}),
        ["redis: Forbidden: only for backend: redis"],
    ),
    "no store": (configuration(backend="redis"), ["redis: Required value"]),
    "a store that is null": (configuration(backend="redis", redis=None), ["redis: Required value"]),
    "a store without a url": (configuration(backend="redis", redis={}), ["redis.url: Required value"]),
    "a CA without TLS": (
        configuration(backend="redis", redis={**REDIS, "caFile": "ca.pem"}),
        [f"redis.caFile: Forbidden: {TLS_ONLY}"],
    ),
    "per worker, in words": (
        configuration(acceptLimitsPerWorker="yes"),
        ['acceptLimitsPerWorker: Invalid value: "yes": must be true or false'],
    ),
    "all at once": (
        configuration(
            {"type": "Server", "qps": 0, "burst": -1},
            {"type": "All", "burst": 1.5, "cacheSize": -3},
            kind="config",
            backend="redis",
            redis={**REDIS, "timeout": "2s", "prefix": "a b", "password": "x"},
        ),
        [
            'kind: Unsupported value: "config": supported values: "Configuration"',
            "limits[0].burst: Invalid value: -1: must be positive",
            "limits[0].qps: Invalid value: 0: must be positive",
            "limits[1].burst: Invalid value: 1.5: must be an integer",
            "limits[1].cacheSize: Invalid value: -3: must not be negative",
            "limits[1].qps: Required value",
            f'limits[1].type: Unsupported value: "All": {TYPES}',
            "redis.password: Forbidden: unknown field; did you mean passwordFile?",
            'redis.prefix: Invalid value: "a b": must match ^[A-Za-z0-9._-]{1,64}$',
            'redis.timeout: Invalid value: "2s": must be between 0.001s and 1s',
        ],
    ),
}


@pytest.mark.parametrize(("tree", "expected"), CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_all_errors_are_reported_at_once(tree: Any, expected: list[str]) -> None:
    assert errors(tree) == expected


def redis(**fields: Any) -> RedisSettings:
    settings = read(configuration(backend="redis", redis={**REDIS, **fields})).redis
    assert settings is not None
    return settings


GOOD_URLS = [
    "redis://limits",
    "redis://limits.example.com:6380",
    "redis://limits/",
    "redis://limits/15",
    "redis://10.0.0.1:6379/0",
    "redis://[::1]:6379/1",
    "rediss://limits.example.com",
    "rediss://events@limits.example.com/1",
    "unix:///run/redis.sock",
    "unix:///run/redis.sock?db=3",
    "unix://events@/run/redis.sock",
]
BAD_URLS = [
    "",
    "limits:6379",
    "redis:limits",
    "redis:///0",
    "redis://limits:0",
    "redis://limits:65536",
    "redis://limits:six",
    "redis://limits/a",
    "redis://limits/0/1",
    "redis://limits?db=1",
    "redis://limits#1",
    "redis://:6379",
    "redis://[::1",
    "http://limits",
    "unix://run/redis.sock",
    "unix://",
    "unix:///run/redis.sock?ssl=no",
]
SECRET_URLS = [
    "redis://:hush@limits",
    "redis://events:hush@limits:6379/0",
    "rediss://events:@limits",
    "redis://events:hu/sh@limits",
    "redis://events:hu@sh@limits",
    "redis://events:hush@limits:x",
    "redis://limits?password=hush",
    "unix:///run/redis.sock?password=hush",
    "unix://:hush@/run/redis.sock",
    "events:hush@limits",
    "hush",
]


@pytest.mark.parametrize("url", GOOD_URLS)
def test_valid_urls(url: str) -> None:
    assert redis(url=url, passwordFile="password").url == url


def test_a_user_requires_a_password() -> None:
    for url in ("rediss://events@limits.example.com/1", "unix://events@/run/redis.sock"):
        [error] = errors(configuration(backend="redis", redis={"url": url}))
        assert error == "redis.url: Invalid value: a user requires a password: set passwordFile"


@pytest.mark.parametrize("url", BAD_URLS + SECRET_URLS)
def test_invalid_urls_are_not_shown(url: str) -> None:
    [error] = errors(configuration(backend="redis", redis={"url": url}))
    assert error in (
        "redis.url: Forbidden: a password must be in a file: set passwordFile",
        "redis.url: Invalid value: must be like redis://host:6379/0, rediss://host:6379/0 or unix:///run/redis.sock?db=0",
    )


@pytest.mark.parametrize("url", SECRET_URLS[:3])
def test_a_password_in_the_url(url: str) -> None:
    [error] = errors(configuration(backend="redis", redis={"url": url}))
    assert error.startswith("redis.url: Forbidden: a password must be in a file")


@pytest.mark.parametrize(("text", "seconds"), [("50ms", 0.05), ("1s", 1.0), ("1ms", 1e-3), ("0.25s", 0.25)])
def test_timeouts(text: str, seconds: float) -> None:
    assert redis(timeout=text).timeout == seconds
    assert redis().timeout == 0.05


@pytest.mark.parametrize("timeout", ["0s", "-1s", "1us", "1001ms", "5", "", "fast", 50, 0.05, True, ["50ms"]])
def test_wrong_timeouts(timeout: Any) -> None:
    [error] = errors(configuration(backend="redis", redis={**REDIS, "timeout": timeout}))
    assert error.startswith("redis.timeout: Invalid value: ")


def test_paths_are_relative_to_the_configuration() -> None:
    settings = redis(url="rediss://limits", passwordFile="secrets/password", caFile="/etc/ca.pem")
    assert (settings.password_file, settings.ca_file) == (FILE.parent / "secrets/password", Path("/etc/ca.pem"))


@pytest.mark.parametrize("prefix", ["", "a b", "a:b", "{a}", "a\n", "p" * 65])
def test_wrong_prefixes(prefix: str) -> None:
    [error] = errors(configuration(backend="redis", redis={**REDIS, "prefix": prefix}))
    assert error.startswith("redis.prefix: Invalid value: ")
